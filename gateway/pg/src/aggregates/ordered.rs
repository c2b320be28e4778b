//! The values of groups in an order: what `array_agg(x ORDER BY y)` and `string_agg(x, d ORDER BY y)` collect.
//!
//! DataFusion's accumulators, in 55.2, keep each value of a group and of its ORDER BY as a scalar, and merge the parts
//! of a group scalar by scalar: a hundred times what sorting takes. Here the values of all groups stay in the arrays in
//! which they came, beside the number of their group and the values of ORDER BY as bytes that compare as they do
//! (arrow's row format). A group is sorted when it is given up. A state is two lists for each group: of values, and of
//! such bytes. With DISTINCT, what it is sorted by is the value, or the key by which it is compared: of those that are
//! equal the first is taken.

use super::passes;
use crate::functions::bounded::ResultBytes;
use arrow::{
    array::{
        Array, ArrayRef, AsArray, BinaryArray, BooleanArray, ListArray, StringViewBuilder, UInt64Array, new_empty_array,
    },
    buffer::{NullBuffer, OffsetBuffer},
    compute::{SortOptions, cast, interleave, take},
    datatypes::{DataType, Field, FieldRef},
    row::{RowConverter, Rows, SortField},
};
use datafusion::{
    common::exec_datafusion_err,
    error::Result,
    logical_expr::{
        Accumulator, EmitTo, GroupsAccumulator,
        function::{AccumulatorArgs, StateFieldsArgs},
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// What becomes of a group's values.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// A list of this type; NULL for a group without values.
    List(FieldRef),
    /// A text, with this between them, of the values that are not NULL; NULL without one.
    Text(String),
}

/// Values of groups. See the module.
pub(crate) struct Ordered {
    form: Form,
    /// How many arguments the aggregate has: the values of ORDER BY stand behind them.
    arguments: usize,
    skips_nulls: bool,
    distinct: bool,
    data: DataType,
    converter: RowConverter,
    /// What each value is sorted by.
    keys: Rows,
    /// Values as they came, and how many bytes they have.
    chunks: Vec<ArrayRef>,
    chunk_bytes: usize,
    /// The group of each value, and its place among the chunks.
    groups: Vec<usize>,
    places: Vec<(usize, usize)>,
    /// Groups so far.
    count: usize,
}

/// Groups that are given up: the values of all of them, those of a group beside each other and in order.
struct Emitted {
    /// How many values each group has.
    lengths: Vec<usize>,
    /// The numbers of the values.
    rows: Vec<usize>,
}

/// Whether an aggregate with these types in ORDER BY is one of these.
pub(crate) fn takes(is_distinct: bool, ordering: &[DataType]) -> bool {
    let fields: Vec<SortField> = ordering.iter().cloned().map(SortField::new).collect();
    (fields.len() == 1 || (!fields.is_empty() && !is_distinct)) && RowConverter::supports_fields(&fields)
}

/// Whether the state is of an aggregate that [is one of these](takes).
pub(crate) fn takes_state(arguments: &StateFieldsArgs) -> bool {
    let ordering: Vec<_> = arguments.ordering_fields.iter().map(|field| field.data_type().clone()).collect();
    takes(arguments.is_distinct, &ordering)
}

/// The types of ORDER BY of an aggregate.
///
/// # Errors
/// DataFusion's.
pub(crate) fn ordering(arguments: &AccumulatorArgs) -> Result<Vec<DataType>> {
    arguments.order_bys.iter().map(|order| order.expr.data_type(arguments.schema)).collect()
}

/// The fields of a state, for an aggregate that [is one of these](takes).
pub(crate) fn state(arguments: &StateFieldsArgs) -> Vec<FieldRef> {
    let list = |part: &str, data: DataType| {
        Arc::new(Field::new_list(format!("{}[{part}]", arguments.name), Field::new_list_field(data, true), true))
    };
    vec![list("values", arguments.input_fields[0].data_type().clone()), list("order", DataType::Binary)]
}

impl Ordered {
    /// For an aggregate that [is one of these](takes).
    ///
    /// # Errors
    /// Arrow's, for types that it cannot sort.
    pub(crate) fn new(arguments: &AccumulatorArgs, form: Form) -> Result<Self> {
        let fields = ordering(arguments)?.into_iter().zip(arguments.order_bys);
        let fields = fields.map(|(data, order)| {
            let SortOptions { descending, nulls_first } = order.options;
            SortField::new_with_options(data, SortOptions { descending, nulls_first })
        });
        let converter = RowConverter::new(fields.collect())?;
        Ok(Self {
            skips_nulls: arguments.ignore_nulls || matches!(form, Form::Text(_)),
            form,
            distinct: arguments.is_distinct,
            arguments: arguments.exprs.len(),
            data: arguments.expr_fields[0].data_type().clone(),
            keys: converter.empty_rows(0, 0),
            converter,
            chunks: Vec::new(),
            chunk_bytes: 0,
            groups: Vec::new(),
            places: Vec::new(),
            count: 0,
        })
    }

    fn push_chunk(&mut self, chunk: ArrayRef) {
        self.chunk_bytes += bytes_of(&chunk);
        self.chunks.push(chunk);
    }

    /// Of rows that come: the values, what they are sorted by, and which of them count.
    fn given<'a>(
        &self,
        values: &'a [ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(&'a ArrayRef, Rows, Vec<usize>)> {
        let (Some(chunk), Some(order)) = (values.first(), values.get(self.arguments..)) else {
            return Err(exec_datafusion_err!("an aggregate in an order has values and an order"));
        };
        let keys = self.converter.convert_columns(order)?;
        let nulls = chunk.logical_nulls().filter(|_| self.skips_nulls);
        let counts = |row: &usize| passes(filter, *row) && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        Ok((chunk, keys, (0..chunk.len()).filter(counts).collect()))
    }

    fn update(
        &mut self,
        values: &[ArrayRef],
        group: impl Fn(usize) -> usize,
        filter: Option<&BooleanArray>,
    ) -> Result<()> {
        let (chunk, keys, rows) = self.given(values, filter)?;
        for row in rows {
            self.groups.push(group(row));
            self.places.push((self.chunks.len(), row));
            self.keys.push(keys.row(row));
        }
        self.push_chunk(Arc::clone(chunk));
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
        let lists = match states {
            [values, keys] => values.as_list_opt::<i32>().zip(keys.as_list_opt::<i32>()),
            _ => None,
        };
        let lists = lists.and_then(|(values, keys)| Some((values, keys, keys.values().as_binary_opt::<i32>()?)));
        let Some((values, keys, bytes)) = lists else {
            return Err(exec_datafusion_err!("the state of an aggregate in an order is two lists"));
        };
        let parser = self.converter.parser();
        for row in 0..values.len() {
            let (of_values, of_keys) = (values.value_offsets(), keys.value_offsets());
            let length = usize::try_from(values.value_length(row)).unwrap_or_default();
            let (first, first_key) = (of_values[row] as usize, of_keys[row] as usize);
            if values.is_null(row) || keys.is_null(row) || keys.value_length(row) != values.value_length(row) {
                continue;
            }
            for at in 0..length {
                self.groups.push(group(row));
                self.places.push((self.chunks.len(), first + at));
                self.keys.push(parser.parse(bytes.value(first_key + at)));
            }
        }
        self.push_chunk(Arc::clone(values.values()));
        Ok(())
    }

    /// The values of the first `count` groups.
    fn emitted(&self, count: usize) -> Emitted {
        let mut lengths = vec![0; count];
        for group in &self.groups {
            if let Some(length) = lengths.get_mut(*group) {
                *length += 1;
            }
        }
        let mut next: Vec<usize> = Vec::with_capacity(count);
        let mut all = 0;
        for length in &lengths {
            next.push(all);
            all += length;
        }
        let mut rows = vec![0; all];
        for (row, group) in self.groups.iter().enumerate() {
            if let Some(next) = next.get_mut(*group) {
                rows[*next] = row;
                *next += 1;
            }
        }
        let mut rest = rows.as_mut_slice();
        for length in &lengths {
            let (group, others) = rest.split_at_mut(*length);
            // Those that are equal stay as they came.
            group.sort_by(|one, other| self.keys.row(*one).cmp(&self.keys.row(*other)));
            rest = others;
        }
        if self.distinct { self.each_once(Emitted { lengths, rows }) } else { Emitted { lengths, rows } }
    }

    /// Of values of a group that are equal the first.
    fn each_once(&self, Emitted { mut lengths, rows }: Emitted) -> Emitted {
        let (mut left, mut first) = (Vec::with_capacity(rows.len()), 0);
        for length in &mut lengths {
            let (before, group) = (left.len(), &rows[first..first + *length]);
            first += *length;
            for row in group {
                let is_last = |last: &usize| self.keys.row(*last) == self.keys.row(*row);
                if !left[before..].last().is_some_and(is_last) {
                    left.push(*row);
                }
            }
            *length = left.len() - before;
        }
        Emitted { lengths, rows: left }
    }

    /// Forgets the first `count` groups: the next one is the first then.
    fn forget(&mut self, count: usize) -> Result<()> {
        self.count -= count.min(self.count);
        let left: Vec<usize> = (0..self.groups.len()).filter(|row| self.groups[*row] >= count).collect();
        let chunk = (!left.is_empty()).then(|| self.values(&left)).transpose()?;
        let mut keys = self.converter.empty_rows(left.len(), 0);
        left.iter().for_each(|row| keys.push(self.keys.row(*row)));
        self.groups = left.iter().map(|row| self.groups[*row] - count).collect();
        self.places = (0..left.len()).map(|row| (0, row)).collect();
        self.keys = keys;
        (self.chunks, self.chunk_bytes) = (Vec::new(), 0);
        if let Some(chunk) = chunk {
            self.push_chunk(chunk);
        }
        Ok(())
    }

    /// Values by their numbers.
    fn values(&self, rows: &[usize]) -> Result<ArrayRef> {
        let chunks: Vec<&dyn Array> = self.chunks.iter().map(AsRef::as_ref).collect();
        Ok(match chunks.as_slice() {
            [] => new_empty_array(&self.data),
            [one] => take(*one, &places(rows.iter().map(|row| self.places[*row].1)), None)?,
            many => interleave(many, &rows.iter().map(|row| self.places[*row]).collect::<Vec<_>>())?,
        })
    }

    fn listed(item: FieldRef, values: ArrayRef, lengths: &[usize], nulls: Option<NullBuffer>) -> Result<ArrayRef> {
        let all: usize = lengths.iter().sum();
        i32::try_from(all).map_err(|_| exec_datafusion_err!("more than {} values in lists", i32::MAX))?;
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?))
    }

    fn results(&mut self, count: usize) -> Result<ArrayRef> {
        let Emitted { lengths, rows } = self.emitted(count);
        let results = match &self.form {
            Form::List(item) => {
                let nulls = NullBuffer::from_iter(lengths.iter().map(|length| *length > 0));
                Self::listed(Arc::clone(item), self.values(&rows)?, &lengths, Some(nulls))?
            }
            Form::Text(delimiter) => {
                let chunks = self.chunks.iter().map(|chunk| Ok(cast(chunk, &DataType::Utf8View)?));
                let chunks = chunks.collect::<Result<Vec<ArrayRef>>>()?;
                let chunks: Vec<_> = chunks.iter().map(|chunk| chunk.as_string_view()).collect();
                let (places, between) = (rows.iter().map(|row| self.places[*row]), delimiter.len() * rows.len());
                let within = places.map(|(chunk, place)| chunks[chunk].value(place).len()).sum::<usize>();
                ResultBytes(ResultBytes::MAX).check("string_agg", (within + between) as u64)?;
                let (mut texts, mut text, mut rows) = (StringViewBuilder::new(), String::new(), rows.iter());
                for length in lengths {
                    if length == 0 {
                        texts.append_null();
                        continue;
                    }
                    text.clear();
                    for (nth, row) in rows.by_ref().take(length).enumerate() {
                        if nth > 0 {
                            text.push_str(delimiter);
                        }
                        let (chunk, place) = self.places[*row];
                        text.push_str(chunks[chunk].value(place));
                    }
                    texts.try_append_value(&text)?;
                }
                Arc::new(texts.finish())
            }
        };
        self.forget(count)?;
        Ok(results)
    }

    fn states(&mut self, count: usize) -> Result<Vec<ArrayRef>> {
        let Emitted { lengths, rows } = self.emitted(count);
        let keys = BinaryArray::from_iter_values(rows.iter().map(|row| self.keys.row(*row)));
        let states = self.state_of(self.values(&rows)?, keys, &lengths)?;
        self.forget(count)?;
        Ok(states)
    }

    fn state_of(&self, values: ArrayRef, keys: BinaryArray, lengths: &[usize]) -> Result<Vec<ArrayRef>> {
        let item = |data: &DataType| Arc::new(Field::new_list_field(data.clone(), true));
        let values = Self::listed(item(&self.data), values, lengths, None)?;
        Ok(vec![values, Self::listed(item(&DataType::Binary), Arc::new(keys), lengths, None)?])
    }

    fn count_of(&self, emit_to: EmitTo) -> usize {
        match emit_to {
            EmitTo::All => self.count,
            EmitTo::First(count) => count,
        }
    }

    fn bytes(&self) -> usize {
        let rows = self.groups.capacity() * size_of::<usize>() + self.places.capacity() * size_of::<(usize, usize)>();
        // What stands between texts is made when they are joined.
        let between = if let Form::Text(delimiter) = &self.form { delimiter.len() * self.groups.len() } else { 0 };
        size_of_val(self) + self.chunk_bytes + between + self.keys.size() + rows + self.converter.size()
    }
}

fn places(rows: impl Iterator<Item = usize>) -> UInt64Array {
    UInt64Array::from_iter_values(rows.map(|row| row as u64))
}

/// Bytes of an array's own values: texts of a view may lie in buffers that many share.
fn bytes_of(array: &ArrayRef) -> usize {
    if let Some(texts) = array.as_string_view_opt() {
        let outside = |length: u32| if length > 12 { length as usize } else { 0 };
        return size_of::<u128>() * texts.len() + texts.lengths().map(outside).sum::<usize>();
    }
    array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size())
}

impl GroupsAccumulator for Ordered {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.count = count;
        self.update(values, |row| groups[row], filter)
    }
    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.results(self.count_of(emit_to))
    }
    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.states(self.count_of(emit_to))
    }
    fn merge_batch(&mut self, values: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.count = count;
        self.merge(values, |row| groups[row])
    }
    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (chunk, keys, rows) = self.given(values, filter)?;
        let mut lengths = vec![0; chunk.len()];
        rows.iter().for_each(|row| lengths[*row] = 1);
        let keys = BinaryArray::from_iter_values(rows.iter().map(|row| keys.row(*row)));
        let values = take(chunk, &places(rows.into_iter()), None)?;
        self.state_of(values, keys, &lengths)
    }
    fn size(&self) -> usize {
        self.bytes()
    }
}

/// The values of all rows.
pub(crate) struct One(pub(crate) Ordered);

impl std::fmt::Debug for One {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("One").field(&self.0.groups.len()).finish()
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update(values, |_| 0, None)
    }
    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge(states, |_| 0)
    }
    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.0.states(1)?;
        states.iter().map(|state| ScalarValue::try_from_array(state, 0)).collect()
    }
    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.0.results(1)?, 0)
    }
    fn size(&self) -> usize {
        self.0.bytes()
    }
}

#[cfg(test)]
mod tests;
