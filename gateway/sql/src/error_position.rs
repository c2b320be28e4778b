//! The position of an error's [`Subject`] in the text of its statement: a column, a relation, a function that does not
//! exist.
//!
//! Plans keep no positions. So the text is parsed once more when such an error is reported, and the position is that of
//! the first name in it that is the error's and is used as the error says: as a column, as a relation, as a function.
//! "First" follows the order in which PostgreSQL analyses a statement: FROM before the select list, HAVING and ORDER BY
//! before GROUP BY, the values that an UPDATE sets last. A name that only the query of a view has is not found: the
//! error has no position.

use crate::{
    ast::{Statement, session::CursorStatement},
    tokens,
};
use datafusion::sql::sqlparser::{
    ast::{
        self, Expr, Ident, ObjectName, OrderBy, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
        TableFactor, TableObject, Visit, Visitor,
    },
    tokenizer::Location,
};
use keyspan_pg::{
    error::{SqlError, subject::Subject},
    ident::fold,
};
use std::{collections::HashSet, ops::ControlFlow};

/// The longest text, in bytes, that is kept while its statements run so that their errors have positions.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// The position of the name that an error is about, in characters from 1; `None` for an error without a [`Subject`] and
/// for a name that the text does not have. `nth` is the failed statement's index in the text, empty statements not
/// counted.
pub fn position(sql: &str, database: &str, nth: usize, error: &SqlError) -> Option<u32> {
    let subject = error.subject.as_deref()?;
    let mut statements = Statement::parse_in(sql, database).ok()?;
    statements.retain(|statement| *statement != Statement::Empty);
    let statement = statements.into_iter().nth(nth)?;
    let mut finder = Finder { subject, location: None, visited: HashSet::new() };
    finder.statement(&statement);
    tokens::position(sql, finder.location?)
}

struct Finder<'a> {
    subject: &'a Subject,
    /// The first location of the subject.
    location: Option<Location>,
    /// The queries and selects that were searched in PostgreSQL's order, by address: sqlparser's visitor comes to them
    /// again.
    visited: HashSet<*const ()>,
}

impl Finder<'_> {
    fn statement(&mut self, statement: &Statement) {
        let _: ControlFlow<()> = match statement {
            Statement::Query(query) => Visit::visit(query.as_ref(), self),
            Statement::LockingQuery(query) => Visit::visit(query.unlocked.as_ref(), self),
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) | Statement::Erase(delete) => {
                let _: ControlFlow<()> = Visit::visit(&delete.from, self);
                let _: ControlFlow<()> = Visit::visit(&delete.using, self);
                Visit::visit(delete.as_ref(), self)
            }
            Statement::CreateTableAs(create) => Visit::visit(create.query.as_ref(), self),
            Statement::CreateMaterialized(create) => Visit::visit(create.view.query.as_ref(), self),
            Statement::CopyOut(copy) => Visit::visit(copy.query.as_ref(), self),
            Statement::Cursor(CursorStatement::Declare(declare)) => Visit::visit(declare.query.unlocked(), self),
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
        insert.columns.iter().for_each(|column| self.written_column(column));
        Visit::visit(insert, self)
    }

    fn update(&mut self, update: &ast::Update) -> ControlFlow<()> {
        let _: ControlFlow<()> = Visit::visit(&update.table, self);
        let _: ControlFlow<()> = Visit::visit(&update.from, self);
        let _: ControlFlow<()> = Visit::visit(&update.selection, self);
        let _: ControlFlow<()> = Visit::visit(&update.returning, self);
        for assignment in &update.assignments {
            if let ast::AssignmentTarget::ColumnName(name) = &assignment.target {
                self.written_column(name);
            }
        }
        Visit::visit(update, self)
    }

    /// Marks a query or select as visited; whether it was not before and the subject is still to be found.
    fn enters<T>(&mut self, query: &T) -> bool {
        self.location.is_none() && self.visited.insert(std::ptr::from_ref(query).cast())
    }

    fn at(&mut self, ident: &Ident) {
        let start = ident.span.start;
        // The parsers' own names have no location.
        if start.line > 0 && self.location.is_none() {
            self.location = Some(start);
        }
    }

    fn written_column(&mut self, name: &ObjectName) {
        let last = name.0.last().and_then(|part| part.as_ident());
        if let (Subject::WrittenColumn(subject), Some(ident)) = (self.subject, last)
            && fold(ident) == *subject
        {
            self.at(ident);
        }
    }

    fn relation(&mut self, name: &ObjectName) {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        let (Subject::Relation(subject), Some(parts)) = (self.subject, parts) else { return };
        if parts.iter().map(|part| fold(part)).collect::<Vec<_>>().join(".") == *subject {
            self.at(parts[0]);
        }
    }

    fn column(&mut self, parts: &[&Ident]) {
        let folded: Vec<String> = parts.iter().map(|part| fold(part)).collect();
        let matches = match (self.subject, folded.as_slice()) {
            (Subject::Column { table: None, name: subject }, [name]) => name == subject,
            (Subject::Column { table: Some(qualifier), name: subject }, [.., table, name]) => {
                (table, name) == (qualifier, subject)
            }
            (Subject::Qualifier(subject), [.., table, _]) => table == subject,
            _ => false,
        };
        if matches {
            self.at(parts[0]);
        }
    }

    /// `x.*`
    fn all_columns(&mut self, name: &ObjectName) {
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
        if let (Subject::Qualifier(subject), Some([first, .., last] | [first @ last])) =
            (self.subject, parts.as_deref())
            && fold(last) == *subject
        {
            self.at(first);
        }
    }

    fn function(&mut self, name: &ObjectName) {
        let last = name.0.last().and_then(|part| part.as_ident());
        if let (Subject::Function(subject), Some(ident)) = (self.subject, last)
            && fold(ident) == *subject
            && let Some(first) = name.0.first().and_then(|part| part.as_ident())
        {
            self.at(first);
        }
    }
}

impl Visitor for Finder<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.enters(query) {
            // ORDER BY is searched with the select that it sorts.
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

/// Searches the parts of a select in the order in which PostgreSQL analyses them.
fn select_in_order(select: &Select, order_by: &Option<OrderBy>, finder: &mut Finder<'_>) -> ControlFlow<()> {
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
    use keyspan_pg::error::SqlState;

    fn check(sql: &str, error: &SqlError, expected: Option<&str>) {
        let position = position(sql, "alto", 0, error);
        let rest = position.map(|position| sql.chars().skip(position as usize - 1).take(8).collect::<String>());
        assert_eq!(rest.as_deref(), expected, "{sql}");
    }

    #[test]
    fn names_are_found_where_they_stand() {
        let column = &SqlError::undefined_column(None, "x");
        check("SELECT é, x FROM t WHERE x = 1", column, Some("x FROM t"));
        check("SELECT 'x', \"X\"\n FROM t\n ORDER BY x DESC", column, Some("x DESC"));
        check("DELETE FROM t WHERE a = X", column, Some("X"));
        check("SELECT u.x, t.x FROM t, u", &SqlError::undefined_column(Some("t"), "x"), Some("t.x FROM"));
        check("SELECT 1", column, None);
        // As PostgreSQL 15 reports them.
        check("SELECT x FROM (SELECT x, 1 FROM t) v", column, Some("x, 1 FRO"));
        check("SELECT x, a FROM t JOIN u ON x = 1", column, Some("x = 1"));
        check("SELECT a FROM t GROUP BY x ORDER BY x DESC", column, Some("x DESC"));
        check("SELECT a FROM t GROUP BY a, x HAVING x > 1", column, Some("x > 1"));
        check("SELECT DISTINCT ON (x) a FROM t ORDER BY x ASC", column, Some("x ASC"));
        check("UPDATE t SET a = x WHERE x = 1 RETURNING x", column, Some("x = 1 RE"));
        check("UPDATE t SET a = x RETURNING x AS y", column, Some("x AS y"));
        check("UPDATE t SET a = x FROM (SELECT x, 1) v", column, Some("x, 1) v"));
        check("DELETE FROM t WHERE x = 1 RETURNING x", column, Some("x = 1 RE"));
        check("WITH q AS (SELECT x, 1) SELECT x FROM q", column, Some("x, 1) SE"));
        check("SELECT x FROM t UNION SELECT x FROM u", column, Some("x FROM t"));
        check("SELECT a FROM t WHERE b IN (SELECT x FROM u) AND x = 1", column, Some("x FROM u"));
        let target = &SqlError::undefined_column_of("t", "x");
        check("INSERT INTO t (a, x) VALUES (1, 2)", target, Some("x) VALUE"));
        check("UPDATE t SET a = 1, x = 2", target, Some("x = 2"));
        let relation = &SqlError::undefined_relation("x");
        check("INSERT INTO x SELECT 1", relation, Some("x SELECT"));
        check("SELECT x FROM a JOIN (SELECT * FROM x) b ON true", relation, Some("x) b ON "));
        check("EXPLAIN UPDATE x SET a = 1", relation, Some("x SET a "));
        check("SELECT 1 FROM public.x", &SqlError::undefined_relation("public.x"), Some("public.x"));
        let missing = &SqlError::new(SqlState::UNDEFINED_TABLE, "missing FROM-clause entry for table \"x\"")
            .with_subject(Subject::Qualifier("x".into()));
        check("SELECT x.a FROM t", missing, Some("x.a FROM"));
        check("SELECT 1, x.* FROM t", missing, Some("x.* FROM"));
        check("SELECT a FROM x AS y ORDER BY x.a, 1", missing, Some("x.a, 1"));
        let function = &SqlError::undefined_function("x", "x(integer)");
        check("SELECT 1 + x(1)", function, Some("x(1)"));
        check("SELECT * FROM x(1)", function, Some("x(1)"));
        check("SELECT x(1)", &SqlError::syntax("function x(integer) does not exist"), None);
    }
}
