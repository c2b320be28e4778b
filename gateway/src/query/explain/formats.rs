//! Plans as JSON, YAML and XML: nodes with the names and keys that PostgreSQL gives them, for tools that read plans.
//!
//! A node of ours that PostgreSQL has no name for is a `Custom Scan`, with its own name as the provider. Costs are made
//! of the planner's estimates of rows: they compare plans of one query, and say nothing of time.

use super::{Lines, filter_text, is_unseen};
use crate::{
    provider::{columnar::ColumnarExec, exec::ScanExec, pushdown::Shape},
    sql::ast::ExplainFormat,
};
use arrow::datatypes::{DataType, Schema};
use datafusion::{
    common::JoinType,
    physical_plan::{
        ExecutionPlan, displayable,
        filter::FilterExec,
        joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        statistics::{StatisticsArgs, StatisticsContext},
    },
};
use std::{fmt::Write, sync::Arc, time::Duration};

/// Rows of a leaf that says nothing of its rows.
const ROWS_UNKNOWN: f64 = 1_000.0;
/// What a row costs.
const ROW_COST: f64 = 0.01;
/// Bytes of a value whose length differs, as the width of a row counts them.
const VALUE_BYTES: usize = 32;

/// PostgreSQL's names of nodes.
pub(super) const NODES: [(&str, &str); 18] = [
    ("AggregateExec", "Aggregate"),
    ("BoundedWindowAggExec", "WindowAgg"),
    ("CoalescePartitionsExec", "Gather"),
    ("CrossJoinExec", "Nested Loop"),
    ("EmptyExec", "Result"),
    ("FilterExec", "Result"),
    ("GlobalLimitExec", "Limit"),
    ("HashJoinExec", "Hash Join"),
    ("LocalLimitExec", "Limit"),
    ("NestedLoopJoinExec", "Nested Loop"),
    ("PlaceholderRowExec", "Result"),
    ("ProjectionExec", "Result"),
    ("RecursiveQueryExec", "Recursive Union"),
    ("SortExec", "Sort"),
    ("SortMergeJoinExec", "Merge Join"),
    ("SortPreservingMergeExec", "Gather Merge"),
    ("UnionExec", "Append"),
    ("WindowAggExec", "WindowAgg"),
];

/// A value of a node.
enum Item {
    Text(String),
    /// A number or a boolean.
    Plain(String),
    Nodes(Vec<Node>),
}

/// A node: keys and values.
type Node = Vec<(String, Item)>;

/// A plan in a format, as one text; one that ran took so long.
pub(super) fn text(plan: &Arc<dyn ExecutionPlan>, format: ExplainFormat, took: Option<Duration>) -> String {
    let (node, _) = node(plan, took.is_some(), None);
    let took = took.map(|took| format!("{:.3}", took.as_secs_f64() * 1e3));
    let mut out = String::new();
    match format {
        ExplainFormat::Text => {}
        ExplainFormat::Json => {
            out.push_str("[\n  {\n    \"Plan\": ");
            json(&node, 2, &mut out);
            if let Some(took) = took {
                let _ = write!(out, ",\n    \"Execution Time\": {took}");
            }
            out.push_str("\n  }\n]");
        }
        ExplainFormat::Yaml => {
            out.push_str("- Plan: ");
            yaml(&node, 2, &mut out);
            if let Some(took) = took {
                let _ = write!(out, "\n  Execution Time: {took}");
            }
        }
        ExplainFormat::Xml => {
            out.push_str("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n");
            xml(&node, 2, &mut out);
            if let Some(took) = took {
                let _ = writeln!(out, "    <Execution-Time>{took}</Execution-Time>");
            }
            out.push_str("  </Query>\n</explain>");
        }
    }
    out
}

/// What the planner expects of a node.
#[derive(Clone, Copy)]
struct Expected {
    rows: f64,
    startup: f64,
    total: f64,
}

fn node(plan: &Arc<dyn ExecutionPlan>, analyze: bool, parent: Option<&str>) -> (Node, Expected) {
    if is_unseen(plan)
        && let [child] = plan.children().as_slice()
    {
        return node(child, analyze, parent);
    }
    let is_scan = plan.is::<ScanExec>() || plan.is::<ColumnarExec>();
    let children: Vec<(Node, Expected)> = match is_scan {
        true => Vec::new(),
        false => {
            let relations = ["Outer", "Inner"].into_iter().chain(std::iter::repeat("Member"));
            plan.children().into_iter().zip(relations).map(|(child, of)| node(child, analyze, Some(of))).collect()
        }
    };
    let expected = expected(plan, &children);
    let mut items: Node = Vec::new();
    let mut put = |key: &str, item: Item| items.push((key.to_owned(), item));
    let name = NODES.iter().find(|(ours, _)| *ours == plan.name()).map(|(_, name)| *name);
    let scan = plan.downcast_ref::<ScanExec>().or_else(|| plan.downcast_ref::<ColumnarExec>().map(ColumnarExec::scan));
    match (scan, name) {
        (Some(scan), _) => {
            let is_whole = matches!(scan.description().shape, Shape::FullScan);
            put("Node Type", Item::Text(if is_whole { "Seq Scan" } else { "Index Scan" }.to_owned()));
        }
        (None, Some(name)) => put("Node Type", Item::Text(name.to_owned())),
        (None, None) => {
            put("Node Type", Item::Text("Custom Scan".to_owned()));
            put("Custom Plan Provider", Item::Text(plan.name().to_owned()));
        }
    }
    if let Some(parent) = parent {
        put("Parent Relationship", Item::Text(parent.to_owned()));
    }
    put("Parallel Aware", Item::Plain("false".to_owned()));
    put("Async Capable", Item::Plain("false".to_owned()));
    if let Some(kind) = join_type(plan) {
        put("Join Type", Item::Text(kind.to_owned()));
    }
    if let Some(scan) = scan {
        let name = &scan.description().name;
        if !matches!(scan.description().shape, Shape::FullScan) {
            put("Index Name", Item::Text(format!("{name}_pkey")));
        }
        put("Relation Name", Item::Text(name.clone()));
        put("Alias", Item::Text(name.clone()));
    }
    put("Startup Cost", Item::Plain(format!("{:.2}", expected.startup)));
    put("Total Cost", Item::Plain(format!("{:.2}", expected.total)));
    put("Plan Rows", Item::Plain(format!("{:.0}", expected.rows)));
    put("Plan Width", Item::Plain(width(&plan.schema()).to_string()));
    if analyze && let Some(metrics) = plan.metrics() {
        let millis = metrics.elapsed_compute().unwrap_or_default() as f64 / 1e6;
        put("Actual Startup Time", Item::Plain("0.000".to_owned()));
        put("Actual Total Time", Item::Plain(format!("{millis:.3}")));
        put("Actual Rows", Item::Plain(metrics.output_rows().unwrap_or_default().to_string()));
        put("Actual Loops", Item::Plain("1".to_owned()));
    }
    if let Some(scan) = scan {
        let mut lines = Lines { out: Vec::new(), analyze };
        lines.scan(scan, "", None, plan.downcast_ref::<ColumnarExec>());
        for (label, about) in lines.out.iter().filter_map(|line| line.split_once(": ")) {
            put(label, Item::Text(about.to_owned()));
        }
    } else if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        put("Filter", Item::Text(filter_text(filter.predicate().as_ref())));
    } else {
        put("Details", Item::Text(super::cut(displayable(plan.as_ref()).one_line().to_string().trim_end())));
    }
    if !children.is_empty() {
        put("Plans", Item::Nodes(children.into_iter().map(|(child, _)| child).collect()));
    }
    (items, expected)
}

#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn expected(plan: &Arc<dyn ExecutionPlan>, children: &[(Node, Expected)]) -> Expected {
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
    let known = known.ok().and_then(|known| known.num_rows.get_value().copied());
    let given = children.iter().map(|(_, child)| child.rows).fold(0.0, f64::max);
    let below = children.iter().map(|(_, child)| child.total).sum::<f64>();
    let rows = known.map(|rows| rows as f64).unwrap_or(if children.is_empty() { ROWS_UNKNOWN } else { given });
    let work = ROW_COST * given.max(rows);
    // Nothing comes out of these before all has gone in.
    let whole = matches!(plan.name(), "SortExec" | "AggregateExec" | "WindowAggExec");
    let startup = if whole { below + work } else { children.first().map_or(0.0, |(_, child)| child.startup) };
    Expected { rows, startup, total: below + work.max(ROW_COST) }
}

fn join_type(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    let hash = plan.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let merge = || plan.downcast_ref::<SortMergeJoinExec>().map(SortMergeJoinExec::join_type);
    let nested = || plan.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    Some(match hash.or_else(merge).or_else(nested)? {
        JoinType::Inner => "Inner",
        JoinType::Left => "Left",
        JoinType::Right => "Right",
        JoinType::Full => "Full",
        JoinType::LeftSemi | JoinType::RightSemi => "Semi",
        JoinType::LeftAnti | JoinType::RightAnti => "Anti",
        JoinType::LeftMark | JoinType::RightMark => "Mark",
    })
}

fn width(schema: &Schema) -> usize {
    let bytes = |data: &DataType| match data {
        DataType::Boolean => 1,
        DataType::Interval(_) => 16,
        data => data.primitive_width().unwrap_or(VALUE_BYTES),
    };
    schema.fields().iter().map(|field| bytes(field.data_type())).sum()
}

fn quoted(text: &str) -> String {
    serde_json::Value::String(text.to_owned()).to_string()
}

fn json(node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    out.push('{');
    for (at, (key, item)) in node.iter().enumerate() {
        let _ = write!(out, "{}\n{indent}  {}: ", if at > 0 { "," } else { "" }, quoted(key));
        match item {
            Item::Text(text) => out.push_str(&quoted(text)),
            Item::Plain(text) => out.push_str(text),
            Item::Nodes(nodes) => {
                out.push('[');
                for (at, child) in nodes.iter().enumerate() {
                    let _ = write!(out, "{}\n{indent}    ", if at > 0 { "," } else { "" });
                    json(child, depth + 2, out);
                }
                let _ = write!(out, "\n{indent}  ]");
            }
        }
    }
    let _ = write!(out, "\n{indent}}}");
}

fn yaml(node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    for (at, (key, item)) in node.iter().enumerate() {
        // The first key of a node in a list stands behind its dash.
        if at > 0 || depth == 2 {
            let _ = write!(out, "\n{indent}");
        }
        match item {
            Item::Text(text) => {
                let _ = write!(out, "{key}: {}", quoted(text));
            }
            Item::Plain(text) => {
                let _ = write!(out, "{key}: {text}");
            }
            Item::Nodes(nodes) => {
                let _ = write!(out, "{key}: ");
                for child in nodes {
                    let _ = write!(out, "\n{indent}  - ");
                    yaml(child, depth + 2, out);
                }
            }
        }
    }
}

fn xml(node: &Node, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let escaped = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let _ = writeln!(out, "{indent}<Plan>");
    for (key, item) in node {
        let tag = key.replace(' ', "-");
        match item {
            Item::Text(text) | Item::Plain(text) => {
                let _ = writeln!(out, "{indent}  <{tag}>{}</{tag}>", escaped(text));
            }
            Item::Nodes(nodes) => {
                let _ = writeln!(out, "{indent}  <{tag}>");
                nodes.iter().for_each(|child| xml(child, depth + 2, out));
                let _ = writeln!(out, "{indent}  </{tag}>");
            }
        }
    }
    let _ = writeln!(out, "{indent}</Plan>");
}
