//! Where in a text an error's name stands: a column, a relation, a function that is not there.
//!
//! Plans know nothing of texts. So the text is parsed once more when such an error is to be told, and the first name in it that is the
//! error's and stands where a column, a relation or a function does is the place. First is what PostgreSQL looks at first: FROM before the select list,
//! HAVING and ORDER BY before GROUP BY, what an UPDATE sets after all else. A name that only a view's query has is not found.

use super::{cursor::CursorStatement, statement::Statement, tokens};
use crate::pg::{
    error::{SqlError, SqlState},
    ident::fold,
};
use datafusion::sql::sqlparser::{
    ast::{
        self, Expr, Ident, ObjectName, OrderBy, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
        TableFactor, TableObject, Visit, Visitor,
    },
    tokenizer::Location,
};
use std::{collections::HashSet, ops::ControlFlow};

/// Bytes of a text that is kept while its statements run, to tell places in it.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The place of the name that an error is about, in characters from 1; `nth` is the statement of the text that failed, from 0, those that
/// are empty not counted.
pub fn position(sql: &str, database: &str, nth: usize, error: &SqlError) -> Option<u32> {
    let wanted = Wanted::of(error)?;
    let mut statements = Statement::parse_in(sql, database).ok()?;
    statements.retain(|statement| *statement != Statement::Empty);
    let statement = statements.into_iter().nth(nth)?;
    let mut finder = Finder { wanted, found: None, entered: HashSet::new() };
    finder.statement(&statement);
    tokens::position(sql, finder.found?)
}

/// What is looked for: names as they are written, in lower case unless quoted.
enum Wanted {
    /// A column by itself, or behind the name of a table.
    Column(Option<String>, String),
    /// A column that is written.
    Target(String),
    /// A relation, with its schema or without.
    Relation(Vec<String>),
    /// What stands before a column as the name of a table.
    Qualifier(String),
    Function(String),
}

impl Wanted {
    fn of(error: &SqlError) -> Option<Self> {
        let message = error.message.as_str();
        let quoted = |before: &str, after: &str| message.strip_prefix(before)?.strip_suffix(after).map(str::to_owned);
        match error.state {
            SqlState::UNDEFINED_COLUMN => {
                if let Some((name, _)) =
                    message.strip_prefix("column \"").and_then(|rest| rest.split_once("\" of relation "))
                {
                    return Some(Self::Target(name.to_owned()));
                }
                if let Some(name) = quoted("column \"", "\" does not exist") {
                    return Some(Self::Column(None, name));
                }
                let (table, name) =
                    message.strip_prefix("column ")?.strip_suffix(" does not exist")?.split_once('.')?;
                Some(Self::Column(Some(table.to_owned()), name.to_owned()))
            }
            SqlState::UNDEFINED_TABLE => match quoted("relation \"", "\" does not exist") {
                Some(name) => Some(Self::Relation(name.split('.').map(str::to_owned).collect())),
                None => ["missing", "invalid reference to"]
                    .into_iter()
                    .find_map(|what| quoted(&format!("{what} FROM-clause entry for table \""), "\""))
                    .map(Self::Qualifier),
            },
            SqlState::UNDEFINED_FUNCTION => {
                let call = quoted("function ", " does not exist")?;
                Some(Self::Function(call.split('(').next()?.to_owned()))
            }
            _ => None,
        }
    }
}

struct Finder {
    wanted: Wanted,
    /// The first place that was come by.
    found: Option<Location>,
    /// The queries whose parts were looked at in order, by where they are in memory: what is visited by sqlparser's order comes by them again.
    entered: HashSet<*const ()>,
}

impl Finder {
    fn statement(&mut self, statement: &Statement) {
        let _: ControlFlow<()> = match statement {
            Statement::Query(query) => Visit::visit(query.as_ref(), self),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => {
                let _: ControlFlow<()> = Visit::visit(&delete.from, self);
                let _: ControlFlow<()> = Visit::visit(&delete.using, self);
                Visit::visit(delete.as_ref(), self)
            }
            Statement::CreateTableAs(create) => Visit::visit(create.query.as_ref(), self),
            Statement::CopyOut(copy) => Visit::visit(copy.query.as_ref(), self),
            Statement::Cursor(CursorStatement::Declare(declare)) => Visit::visit(declare.query.as_ref(), self),
            Statement::Explain(explained) => {
                self.statement(&explained.statement);
                ControlFlow::Continue(())
            }
            Statement::Prepare(prepare) => {
                self.statement(&prepare.statement);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Continue(()),
        };
    }

    fn insert(&mut self, insert: &ast::Insert) -> ControlFlow<()> {
        if let TableObject::TableName(name) = &insert.table {
            self.relation(name);
        }
        insert.columns.iter().for_each(|column| self.target(column));
        Visit::visit(insert, self)
    }

    fn update(&mut self, update: &ast::Update) -> ControlFlow<()> {
        let _: ControlFlow<()> = Visit::visit(&update.table, self);
        let _: ControlFlow<()> = Visit::visit(&update.from, self);
        let _: ControlFlow<()> = Visit::visit(&update.selection, self);
        let _: ControlFlow<()> = Visit::visit(&update.returning, self);
        for assignment in &update.assignments {
            if let ast::AssignmentTarget::ColumnName(name) = &assignment.target {
                self.target(name);
            }
        }
        Visit::visit(update, self)
    }

    /// Whether the parts of a query are still to be looked at.
    fn enters<T>(&mut self, query: &T) -> bool {
        self.found.is_none() && self.entered.insert(std::ptr::from_ref(query).cast())
    }

    fn at(&mut self, ident: &Ident) {
        let start = ident.span.start;
        // Names that we have written ourselves stand nowhere.
        if start.line > 0 && self.found.is_none() {
            self.found = Some(start);
        }
    }

    fn target(&mut self, name: &ObjectName) {
        let last = name.0.last().and_then(|part| part.as_ident());
        if let (Wanted::Target(wanted), Some(ident)) = (&self.wanted, last)
            && fold(ident) == *wanted
        {
            self.at(ident);
        }
    }

    fn relation(&mut self, name: &ObjectName) {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let (Wanted::Relation(wanted), Some(parts)) = (&self.wanted, parts) else { return };
        if parts.iter().map(|part| fold(part)).eq(wanted.iter().cloned()) {
            self.at(parts[0]);
        }
    }

    fn column(&mut self, parts: &[&Ident]) {
        let folded: Vec<String> = parts.iter().map(|part| fold(part)).collect();
        let is = match (&self.wanted, folded.as_slice()) {
            (Wanted::Column(None, wanted), [name]) => name == wanted,
            (Wanted::Column(Some(of), wanted), [.., table, name]) => (table, name) == (of, wanted),
            (Wanted::Qualifier(wanted), [.., table, _]) => table == wanted,
            _ => false,
        };
        if is {
            self.at(parts[0]);
        }
    }

    /// `x.*`
    fn all_columns(&mut self, name: &ObjectName) {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        if let (Wanted::Qualifier(wanted), Some([first, .., last] | [first @ last])) = (&self.wanted, parts.as_deref())
            && fold(last) == *wanted
        {
            self.at(first);
        }
    }

    fn function(&mut self, name: &ObjectName) {
        let last = name.0.last().and_then(|part| part.as_ident());
        if let (Wanted::Function(wanted), Some(ident)) = (&self.wanted, last)
            && fold(ident) == *wanted
            && let Some(first) = name.0.first().and_then(|part| part.as_ident())
        {
            self.at(first);
        }
    }
}

impl Visitor for Finder {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.enters(query) {
            // What sorts is looked at with the select that it sorts.
            let selected = match query.body.as_ref() {
                SetExpr::Select(select) => self.enters(select.as_ref()).then_some(select),
                _ => None,
            };
            let _: ControlFlow<()> = Visit::visit(&query.with, self);
            match selected {
                Some(select) => {
                    let _: ControlFlow<()> = select_in_order(select, &query.order_by, self);
                }
                None => {
                    let _: ControlFlow<()> = Visit::visit(&query.body, self);
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if self.enters(select) {
            let _: ControlFlow<()> = select_in_order(select, &None, self);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.relation(name);
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } => self.function(name),
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => self.column(&[ident]),
            Expr::CompoundIdentifier(parts) => self.column(&parts.iter().collect::<Vec<_>>()),
            Expr::Function(function) => self.function(&function.name),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The parts of a select, in the order in which PostgreSQL looks at them.
fn select_in_order(select: &Select, order_by: &Option<OrderBy>, finder: &mut Finder) -> ControlFlow<()> {
    Visit::visit(&select.from, finder)?;
    for item in &select.projection {
        if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item {
            finder.all_columns(name);
        }
        Visit::visit(item, finder)?;
    }
    Visit::visit(&select.selection, finder)?;
    Visit::visit(&select.having, finder)?;
    Visit::visit(order_by, finder)?;
    Visit::visit(&select.group_by, finder)?;
    Visit::visit(&select.distinct, finder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sql: &str, state: SqlState, message: &str, expected: Option<&str>) {
        let position = position(sql, "alto", 0, &SqlError::new(state, message));
        let shown = position.map(|position| sql.chars().skip(position as usize - 1).take(8).collect::<String>());
        assert_eq!(shown.as_deref(), expected, "{sql}");
    }

    #[test]
    fn names_are_found_where_they_stand() {
        use SqlState as S;
        let column = "column \"x\" does not exist";
        check("SELECT é, x FROM t WHERE x = 1", S::UNDEFINED_COLUMN, column, Some("x FROM t"));
        check("SELECT 'x', \"X\"\n FROM t\n ORDER BY x DESC", S::UNDEFINED_COLUMN, column, Some("x DESC"));
        check("DELETE FROM t WHERE a = X", S::UNDEFINED_COLUMN, column, Some("X"));
        check("SELECT u.x, t.x FROM t, u", S::UNDEFINED_COLUMN, "column t.x does not exist", Some("t.x FROM"));
        check("SELECT 1", S::UNDEFINED_COLUMN, column, None);
        // As PostgreSQL 15 tells them.
        check("SELECT x FROM (SELECT x, 1 FROM t) v", S::UNDEFINED_COLUMN, column, Some("x, 1 FRO"));
        check("SELECT x, a FROM t JOIN u ON x = 1", S::UNDEFINED_COLUMN, column, Some("x = 1"));
        check("SELECT a FROM t GROUP BY x ORDER BY x DESC", S::UNDEFINED_COLUMN, column, Some("x DESC"));
        check("SELECT a FROM t GROUP BY a, x HAVING x > 1", S::UNDEFINED_COLUMN, column, Some("x > 1"));
        check("SELECT DISTINCT ON (x) a FROM t ORDER BY x ASC", S::UNDEFINED_COLUMN, column, Some("x ASC"));
        check("UPDATE t SET a = x WHERE x = 1 RETURNING x", S::UNDEFINED_COLUMN, column, Some("x = 1 RE"));
        check("UPDATE t SET a = x RETURNING x AS y", S::UNDEFINED_COLUMN, column, Some("x AS y"));
        check("UPDATE t SET a = x FROM (SELECT x, 1) v", S::UNDEFINED_COLUMN, column, Some("x, 1) v"));
        check("DELETE FROM t WHERE x = 1 RETURNING x", S::UNDEFINED_COLUMN, column, Some("x = 1 RE"));
        check("WITH q AS (SELECT x, 1) SELECT x FROM q", S::UNDEFINED_COLUMN, column, Some("x, 1) SE"));
        check("SELECT x FROM t UNION SELECT x FROM u", S::UNDEFINED_COLUMN, column, Some("x FROM t"));
        check("SELECT a FROM t WHERE b IN (SELECT x FROM u) AND x = 1", S::UNDEFINED_COLUMN, column, Some("x FROM u"));
        let target = "column \"x\" of relation \"t\" does not exist";
        check("INSERT INTO t (a, x) VALUES (1, 2)", S::UNDEFINED_COLUMN, target, Some("x) VALUE"));
        check("UPDATE t SET a = 1, x = 2", S::UNDEFINED_COLUMN, target, Some("x = 2"));
        let relation = "relation \"x\" does not exist";
        check("INSERT INTO x SELECT 1", S::UNDEFINED_TABLE, relation, Some("x SELECT"));
        check("SELECT x FROM a JOIN (SELECT * FROM x) b ON true", S::UNDEFINED_TABLE, relation, Some("x) b ON "));
        check("EXPLAIN UPDATE x SET a = 1", S::UNDEFINED_TABLE, relation, Some("x SET a "));
        check("SELECT 1 FROM public.x", S::UNDEFINED_TABLE, "relation \"public.x\" does not exist", Some("public.x"));
        let missing = "missing FROM-clause entry for table \"x\"";
        check("SELECT x.a FROM t", S::UNDEFINED_TABLE, missing, Some("x.a FROM"));
        check("SELECT 1, x.* FROM t", S::UNDEFINED_TABLE, missing, Some("x.* FROM"));
        let hidden = "invalid reference to FROM-clause entry for table \"x\"";
        check("SELECT a FROM x AS y ORDER BY x.a, 1", S::UNDEFINED_TABLE, hidden, Some("x.a, 1"));
        let function = "function x(integer) does not exist";
        check("SELECT 1 + x(1)", S::UNDEFINED_FUNCTION, function, Some("x(1)"));
        check("SELECT * FROM x(1)", S::UNDEFINED_FUNCTION, function, Some("x(1)"));
        check("SELECT x(1)", S::SYNTAX_ERROR, function, None);
    }
}
