use super::*;
use arrow::{
    array::{Int32Array, Int64Array, StringArray},
    datatypes::Schema,
};
use datafusion::physical_expr::{PhysicalSortExpr, expressions::Column};
use proptest::prelude::*;

/// A row: its group, its value, what it is sorted by, and whether FILTER lets it pass.
type Given = (usize, Option<i32>, Option<i64>, bool);

const GROUPS: usize = 5;

fn given() -> impl Strategy<Value = Given> {
    let (value, order) = (proptest::option::of(0..100i32), proptest::option::of(-3..3i64));
    (0..GROUPS, value, order, proptest::bool::weighted(0.9))
}

fn ordered(form: Form, options: SortOptions) -> Ordered {
    with(form, options, false)
}

fn with(form: Form, options: SortOptions, is_distinct: bool) -> Ordered {
    let schema = Schema::new(vec![Field::new("v", DataType::Int32, true), Field::new("o", DataType::Int64, true)]);
    let fields: Vec<FieldRef> = vec![Arc::new(schema.field(0).clone())];
    let order = [PhysicalSortExpr { expr: Arc::new(Column::new("o", 1)), options }];
    let arguments = AccumulatorArgs {
        return_field: Arc::new(Field::new_list("", Field::new_list_field(DataType::Int32, true), true)),
        schema: &schema,
        ignore_nulls: false,
        order_bys: &order,
        name: "listed",
        is_distinct,
        is_reversed: false,
        exprs: &[Arc::new(Column::new("v", 0))],
        expr_fields: &fields,
    };
    Ordered::new(&arguments, form).unwrap()
}

fn lists() -> Form {
    Form::List(Arc::new(Field::new_list_field(DataType::Int32, true)))
}

fn update(ordered: &mut Ordered, rows: &[Given]) {
    let values: ArrayRef = Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.1)));
    let order: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2)));
    let groups: Vec<usize> = rows.iter().map(|row| row.0).collect();
    let filter = BooleanArray::from_iter(rows.iter().map(|row| Some(row.3)));
    ordered.update_batch(&[values, order], &groups, Some(&filter), GROUPS).unwrap();
}

fn shown(lists: &ArrayRef) -> Vec<Option<Vec<Option<i32>>>> {
    let items = |list: ArrayRef| list.as_primitive::<arrow::datatypes::Int32Type>().iter().collect();
    lists.as_list::<i32>().iter().map(|list| list.map(items)).collect()
}

/// The same, without any of it.
fn expected(rows: &[Given], options: SortOptions) -> Vec<Option<Vec<Option<i32>>>> {
    let of = |group: usize| {
        let mut rows: Vec<&Given> = rows.iter().filter(|row| row.0 == group && row.3).collect();
        rows.sort_by(|one, other| match (one.2, other.2) {
            (None, None) => std::cmp::Ordering::Equal,
            (None, _) if options.nulls_first => std::cmp::Ordering::Less,
            (None, _) => std::cmp::Ordering::Greater,
            (_, None) if options.nulls_first => std::cmp::Ordering::Greater,
            (_, None) => std::cmp::Ordering::Less,
            (one, other) if options.descending => other.cmp(&one),
            (one, other) => one.cmp(&other),
        });
        (!rows.is_empty()).then(|| rows.into_iter().map(|row| row.1).collect())
    };
    (0..GROUPS).map(of).collect()
}

proptest! {
    /// However the rows come: in batches, in parts whose states are merged, and with groups given up one after the
    /// other.
    #[test]
    fn groups_have_their_values_in_order(
        rows in proptest::collection::vec(given(), 0..60),
        batch in 1..9usize,
        part in 1..30usize,
        first in 0..GROUPS,
        descending: bool,
        nulls_first: bool,
    ) {
        let options = SortOptions { descending, nulls_first };
        let expected = expected(&rows, options);
        let mut whole = ordered(lists(), options);
        rows.chunks(batch).for_each(|rows| update(&mut whole, rows));
        let mut merged = ordered(lists(), options);
        for rows in rows.chunks(part) {
            let mut partial = ordered(lists(), options);
            rows.chunks(batch).for_each(|rows| update(&mut partial, rows));
            let states = [partial.state(EmitTo::First(first)).unwrap(), partial.state(EmitTo::All).unwrap()];
            for (states, groups) in states.iter().zip([0..first, first..GROUPS]) {
                prop_assert_eq!(states[0].len(), groups.len());
                merged.merge_batch(states, &groups.collect::<Vec<_>>(), GROUPS).unwrap();
            }
        }
        let mut converted = ordered(lists(), options);
        for rows in rows.chunks(batch) {
            let values: ArrayRef = Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.1)));
            let order: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2)));
            let filter = BooleanArray::from_iter(rows.iter().map(|row| Some(row.3)));
            let states = converted.convert_to_state(&[values, order], Some(&filter)).unwrap();
            let groups: Vec<usize> = rows.iter().map(|row| row.0).collect();
            converted.merge_batch(&states, &groups, GROUPS).unwrap();
        }
        for mut ordered in [whole, merged, converted] {
            ordered.count = GROUPS;
            let mut found = shown(&ordered.evaluate(EmitTo::First(first)).unwrap());
            found.extend(shown(&ordered.evaluate(EmitTo::All).unwrap()));
            prop_assert_eq!(&found, &expected);
            prop_assert!(ordered.chunks.is_empty() && ordered.groups.is_empty());
        }
    }
}

#[test]
fn texts_are_joined_without_those_that_are_null() {
    let mut joined = ordered(Form::Text(", ".to_owned()), SortOptions { descending: true, nulls_first: true });
    for (texts, order, groups) in [
        (vec![Some("a"), None, Some("longer than twelve bytes")], vec![1, 9, 2], vec![0, 0, 1]),
        (vec![Some("b"), Some(""), None], vec![2, 1, 1], vec![0, 1, 3]),
    ] {
        let texts: ArrayRef = Arc::new(StringArray::from(texts));
        joined.update_batch(&[texts, Arc::new(Int64Array::from(order))], &groups, None, 4).unwrap();
    }
    let found = joined.evaluate(EmitTo::All).unwrap();
    let found: Vec<_> = found.as_string_view().iter().collect();
    assert_eq!(found, [Some("b, a"), Some("longer than twelve bytes, "), None, None]);
}

#[test]
fn of_equal_values_the_first_is_taken() {
    let options = SortOptions { descending: false, nulls_first: false };
    let rows = [(0, Some(10), Some(1)), (1, Some(30), Some(3)), (0, Some(11), Some(1)), (0, None, None)];
    let rows: Vec<Given> =
        rows.into_iter().chain([(0, Some(5), Some(0)), (0, None, None)]).map(|(g, v, o)| (g, v, o, true)).collect();
    let mut whole = with(lists(), options, true);
    update(&mut whole, &rows);
    let mut merged = with(lists(), options, true);
    for rows in rows.chunks(2) {
        let mut part = with(lists(), options, true);
        update(&mut part, rows);
        let states = part.state(EmitTo::All).unwrap();
        merged.merge_batch(&states, &(0..GROUPS).collect::<Vec<_>>(), GROUPS).unwrap();
    }
    for mut ordered in [whole, merged] {
        let found = shown(&ordered.evaluate(EmitTo::All).unwrap());
        assert_eq!(found, [Some(vec![Some(5), Some(10), None]), Some(vec![Some(30)]), None, None, None]);
    }
}

#[test]
fn one_group_without_rows_is_null() {
    for form in [lists(), Form::Text(String::new())] {
        let options = SortOptions { descending: false, nulls_first: false };
        let mut none = One(ordered(form.clone(), options));
        assert!(none.evaluate().unwrap().is_null());
        let state = One(ordered(form, options)).state().unwrap();
        let state: Vec<_> = state.iter().map(|state| state.to_array().unwrap()).collect();
        none.merge_batch(&state).unwrap();
        assert!(none.evaluate().unwrap().is_null());
    }
}
