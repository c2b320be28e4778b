//! Functions that operators and rules of the planner put into plans, each under its Rust name: no rule asks a registry,
//! which would need the planner to be there first.

use super::{json, lists, times};
use datafusion::logical_expr::ScalarUDF;
use std::sync::{Arc, LazyLock};

/// `NAME = "SQL name" of LIST`: a function `NAME()` for each.
macro_rules! planned {
    ($($name:ident = $sql:literal of $room:ident;)*) => {
        $(
            #[doc = concat!("`", $sql, "`, as [`", stringify!($room), "`] defines it.")]
            pub fn $name() -> Arc<ScalarUDF> {
                static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| only($room::functions(), $sql));
                Arc::clone(&FUNCTION)
            }
        )*

        /// All of them by their SQL names.
        #[cfg(test)]
        const ALL: &[(&str, fn() -> Arc<ScalarUDF>)] = &[$(($sql, $name)),*];
    };
}

planned! {
    list_has_nulls = "list_has_nulls" of lists;
    list_slice_of = "list_slice_of" of lists;
    list_place = "list_place" of lists;
    json_get = "json_get" of json;
    json_get_text = "json_get_text" of json;
    json_get_path = "json_get_path" of json;
    json_get_path_text = "json_get_path_text" of json;
    jsonb_exists = "jsonb_exists" of json;
    jsonb_exists_any = "jsonb_exists_any" of json;
    jsonb_exists_all = "jsonb_exists_all" of json;
    jsonb_delete_path = "jsonb_delete_path" of json;
    jsonb_contains = "jsonb_contains" of json;
    jsonb_concat = "jsonb_concat" of json;
    jsonb_delete = "jsonb_delete" of json;
    interval_times = "interval_times" of times;
    interval_over = "interval_over" of times;
    timestamptz_plus = "timestamptz_plus" of times;
    timestamptz_minus = "timestamptz_minus" of times;
    extract_seconds = "pg_extract_6" of times;
    extract_milliseconds = "pg_extract_3" of times;
    extract_whole = "pg_extract_0" of times;
}

fn only(mut functions: impl Iterator<Item = Arc<ScalarUDF>>, name: &str) -> Arc<ScalarUDF> {
    functions.find(|function| function.name() == name).expect("the list of its room has the function")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_the_function_of_its_name() {
        for (name, function) in ALL {
            assert_eq!(function().name(), *name);
        }
    }
}
