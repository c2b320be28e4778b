//! Merge joins, which take the place of hash joins where memory is short.

use crate::query::{
    plan,
    testing::{parse, session, shown},
};
use datafusion::physical_plan::displayable;

#[tokio::test]
async fn conditions_beside_the_keys_are_of_the_right_columns() {
    let (hashed, merged) = (session(false), session(false));
    merged.state_ref().write().config_mut().options_mut().optimizer.prefer_hash_join = false;
    let joins = "(VALUES (1, 10, 100), (1, 30, 300), (2, 5, 50)) a(k, x, w)
        JOIN (VALUES (1, 20, 7), (1, 5, 8), (2, 9, 9)) b(k, x, v) ON a.k = b.k AND a.x < b.x";
    for items in ["b.v, a.w", "a.w, b.v", "b.x, a.x", "b.v", "a.x, b.k, b.v", "b.v, b.x, a.x, a.w"] {
        let sql = format!("SELECT {items} FROM {joins} ORDER BY {items}");
        let logical = plan(&merged, parse(&sql)).await.unwrap();
        let physical = merged.state().create_physical_plan(&logical).await.unwrap();
        assert!(displayable(physical.as_ref()).indent(false).to_string().contains("SortMergeJoin"), "{sql}");
        assert_eq!(shown(&merged, &sql).await, shown(&hashed, &sql).await, "{sql}");
    }
}
