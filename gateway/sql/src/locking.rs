//! `FOR UPDATE`, `FOR NO KEY UPDATE`, `FOR SHARE` and `FOR KEY SHARE` at the end of a SELECT.
//!
//! sqlparser knows two of the four, and takes FOR for an alias where there is no FROM. So the clauses are cut out of
//! the tokens before it reads the query, checked against its tree by PostgreSQL's rules, and put there as
//! [`LockClause`]s, one for each name behind OF. The gateway's `execute::locking` carries them out.
//!
//! A subquery may have such a clause in UPDATE and DELETE only, whose subqueries that lock run first
//! (`execute::locking::subqueries`). The clause of `UPDATE t … WHERE k IN (SELECT k FROM t … FOR UPDATE)` is left out:
//! the statement changes the same rows, which locks them.

use crate::tokens::TokenReader;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Cte, Expr, Function, GroupByExpr, Ident, JoinOperator, LockClause, LockType, NonBlock, ObjectName,
    ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor, TableWithJoins, Visit,
    Visitor,
};
use keyspan_pg::{
    aggregates::is_aggregate,
    error::{Result, SqlError, SqlState},
    ident::fold,
    syntax::set_returning::gives_rows,
};
use std::ops::ControlFlow;

/// The clauses of one query, in order.
pub(crate) struct Locks(Vec<Lock>);

struct Lock {
    /// As the statement has it: `FOR UPDATE`.
    name: &'static str,
    kind: LockType,
    of: Vec<Vec<String>>,
    nonblock: Option<NonBlock>,
}

/// A table whose rows a query locks.
pub struct LockedTable<'a> {
    /// The table in FROM.
    pub factor: &'a mut TableFactor,
    /// Its alias, or its name without one.
    pub called: Ident,
    /// Whether the lock is exclusive, as if the rows were changed: `FOR UPDATE`.
    pub changes: bool,
    /// `NOWAIT` or `SKIP LOCKED`, for rows that other transactions hold.
    pub nonblock: Option<NonBlock>,
}

impl Locks {
    /// Cuts the clauses out of the tokens that are not read yet, except those of subqueries.
    pub(crate) fn cut(tokens: &mut TokenReader<'_>) -> Result<Self> {
        tokens.cut_clauses(Lock::read).map(Self)
    }

    /// Refuses any clause: 0A000.
    pub(crate) fn refuse(&self) -> Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(nested()) }
    }

    /// Puts the clauses into the query.
    ///
    /// # Errors
    /// PostgreSQL's: 0A000 in a query that groups, aggregates or combines rows, 42P01 for a name that is not in FROM.
    /// Also 0A000 for a subquery in FROM.
    pub(crate) fn put(self, query: &mut Query) -> Result<()> {
        for lock in self.0 {
            lock.check(query)?;
            let clause = |of: Option<ObjectName>| LockClause { lock_type: lock.kind, of, nonblock: lock.nonblock };
            let name = |parts: &Vec<String>| {
                let parts = parts.iter().map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part)));
                ObjectName(parts.collect())
            };
            match lock.of.as_slice() {
                [] => query.locks.push(clause(None)),
                names => query.locks.extend(names.iter().map(|parts| clause(Some(name(parts))))),
            }
        }
        Ok(())
    }
}

impl Lock {
    /// Reads a clause, if one comes next.
    fn read(tokens: &mut TokenReader<'_>) -> Result<Option<Self>> {
        let kinds = [
            ("for no key update", "FOR NO KEY UPDATE", LockType::Update),
            ("for update", "FOR UPDATE", LockType::Update),
            ("for key share", "FOR KEY SHARE", LockType::Share),
            ("for share", "FOR SHARE", LockType::Share),
        ];
        let Some((_, name, kind)) = kinds.into_iter().find(|(words, ..)| tokens.words(words)) else { return Ok(None) };
        let of = if tokens.words("of") { tokens.list(TokenReader::path)? } else { Vec::new() };
        let nonblock = match () {
            () if tokens.words("nowait") => Some(NonBlock::Nowait),
            () if tokens.words("skip locked") => Some(NonBlock::SkipLocked),
            () => None,
        };
        Ok(Some(Self { name, kind, of, nonblock }))
    }

    fn check(&self, query: &Query) -> Result<()> {
        let name = self.name;
        let no = |what: &str| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{name} {what}")));
        let select = match query.body.as_ref() {
            SetExpr::Select(select) => select,
            SetExpr::SetOperation { .. } => return no("is not allowed with UNION/INTERSECT/EXCEPT"),
            SetExpr::Values(_) => return no("cannot be applied to VALUES"),
            _ => return Err(nested()),
        };
        if let Some(beside) = beside(query, select) {
            return no(&format!("is not allowed with {beside}"));
        }
        let relations = relations(select);
        if self.of.is_empty() {
            for relation in &relations {
                match relation.factor {
                    TableFactor::Table { args: None, .. } if relation.is_cte(query) => {}
                    TableFactor::Table { args: None, .. } if relation.nullable => {
                        return no("cannot be applied to the nullable side of an outer join");
                    }
                    TableFactor::Derived { .. } => return Err(nested()),
                    _ => {}
                }
            }
            return Ok(());
        }
        for parts in &self.of {
            let [locked] = parts.as_slice() else {
                return Err(SqlError::syntax(format!("{name} must specify unqualified relation names")));
            };
            let is = |relation: &&Relation<'_>| relation.called.as_ref().is_some_and(|called| fold(called) == *locked);
            let Some(found) = relations.iter().find(is) else {
                let message = format!("relation \"{locked}\" in {name} clause not found in FROM clause");
                return Err(SqlError::new(SqlState::UNDEFINED_TABLE, message));
            };
            match found.factor {
                TableFactor::Table { args: None, .. } if found.is_cte(query) => {
                    return no("cannot be applied to a WITH query");
                }
                _ if found.nullable => return no("cannot be applied to the nullable side of an outer join"),
                TableFactor::Table { args: None, .. } => {}
                TableFactor::NestedJoin { .. } => return no("cannot be applied to a join"),
                TableFactor::Derived { .. } => return Err(nested()),
                _ => return no("cannot be applied to a function"),
            }
        }
        Ok(())
    }
}

/// 0A000 for a clause at a place where the rows that it locks are not known.
pub fn nested() -> SqlError {
    SqlError::unsupported("FOR UPDATE or FOR SHARE in or of a subquery").with_hint(
        "Put it at the end of the SELECT that reads the table. A subquery of UPDATE and DELETE, and a query in WITH \
         before them, may have it as well, if it names nothing of the statement around it.",
    )
}

/// Checks the clauses of a write's subqueries.
///
/// # Errors
/// Those of [`Locks::put`]; 0A000 for a clause within a query that has one.
pub(crate) fn check_nested(parsed: &Statement) -> Result<()> {
    struct Check {
        locking: usize,
    }
    impl Visitor for Check {
        type Break = SqlError;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
            if query.locks.is_empty() {
                return ControlFlow::Continue(());
            }
            if self.locking > 0 {
                return ControlFlow::Break(nested());
            }
            self.locking += 1;
            let name = |lock: &LockClause| if lock.lock_type == LockType::Update { "FOR UPDATE" } else { "FOR SHARE" };
            let checked = query.locks.iter().try_for_each(|lock| {
                let parts = |of: &ObjectName| of.0.iter().filter_map(|part| part.as_ident()).map(fold).collect();
                let of = lock.of.iter().map(parts).collect();
                Lock { name: name(lock), kind: lock.lock_type, of, nonblock: lock.nonblock }.check(query)
            });
            checked.map_or_else(ControlFlow::Break, ControlFlow::Continue)
        }

        fn post_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
            self.locking -= usize::from(!query.locks.is_empty());
            ControlFlow::Continue(())
        }
    }
    match parsed.visit(&mut Check { locking: 0 }) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// The part of a query that makes its rows other than those of its tables, as the error names it.
fn beside(query: &Query, select: &Select) -> Option<&'static str> {
    if select.distinct.is_some() {
        return Some("DISTINCT clause");
    }
    if !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty()) {
        return Some("GROUP BY clause");
    }
    if select.having.is_some() {
        return Some("HAVING clause");
    }
    let mut calls = Calls::default();
    let _: ControlFlow<()> = select.projection.visit(&mut calls);
    let sets = calls.sets;
    if let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) {
        let _: ControlFlow<()> = orders.visit(&mut calls);
    }
    match () {
        () if calls.aggregates => Some("aggregate functions"),
        () if calls.windows => Some("window functions"),
        () if sets => Some("set-returning functions in the target list"),
        () => None,
    }
}

/// The kinds of functions that a query calls, outside of its subqueries.
#[derive(Default)]
struct Calls {
    depth: usize,
    aggregates: bool,
    windows: bool,
    sets: bool,
}

impl Visitor for Calls {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(Function { name, over, .. }) = expr
            && self.depth == 0
            && let Some(name) = name.0.last().and_then(ObjectNamePart::as_ident).map(fold)
        {
            let aggregate = is_aggregate(&name);
            self.windows |= over.is_some();
            self.aggregates |= over.is_none() && aggregate;
            self.sets |= gives_rows(&name);
        }
        ControlFlow::Continue(())
    }
}

/// A relation in FROM.
struct Relation<'a> {
    factor: &'a TableFactor,
    called: Option<Ident>,
    /// Whether it is on the nullable side of an outer join.
    nullable: bool,
}

impl Relation<'_> {
    /// Whether it is a query of WITH.
    fn is_cte(&self, query: &Query) -> bool {
        is_cte(self.factor, query.with.as_ref().map_or(&[], |with| with.cte_tables.as_slice()))
    }
}

fn is_cte(factor: &TableFactor, ctes: &[Cte]) -> bool {
    let TableFactor::Table { name, .. } = factor else { return false };
    let [name] = name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| ctes.iter().any(|cte| fold(&cte.alias.name) == fold(name)))
}

fn called(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. } => Some(alias.name.clone()),
        TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
        _ => None,
    }
}

/// Which sides of a join are nullable: the left, the right.
fn outer(join: &JoinOperator) -> (bool, bool) {
    use JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
    match join {
        Left(_) | LeftOuter(_) => (false, true),
        Right(_) | RightOuter(_) => (true, false),
        FullOuter(_) => (true, true),
        _ => (false, false),
    }
}

fn relations(select: &Select) -> Vec<Relation<'_>> {
    fn add<'a>(from: &'a TableWithJoins, all: &mut Vec<Relation<'a>>) {
        let start = all.len();
        one(&from.relation, all);
        for join in &from.joins {
            let (left, right) = outer(&join.join_operator);
            let behind = all.len();
            one(&join.relation, all);
            all[start..behind].iter_mut().for_each(|relation| relation.nullable |= left);
            all[behind..].iter_mut().for_each(|relation| relation.nullable |= right);
        }
    }
    fn one<'a>(factor: &'a TableFactor, all: &mut Vec<Relation<'a>>) {
        all.push(Relation { factor, called: called(factor), nullable: false });
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            add(table_with_joins, all);
        }
    }
    let mut all = Vec::new();
    select.from.iter().for_each(|from| add(from, &mut all));
    all
}

/// Removes the clauses from a query; returns the tables whose rows they lock.
pub fn locked(query: &mut Query) -> Vec<LockedTable<'_>> {
    fn add<'a>(from: &'a mut TableWithJoins, all: &mut Vec<&'a mut TableFactor>) {
        one(&mut from.relation, all);
        from.joins.iter_mut().for_each(|join| one(&mut join.relation, all));
    }
    fn one<'a>(factor: &'a mut TableFactor, all: &mut Vec<&'a mut TableFactor>) {
        match factor {
            TableFactor::Table { args: None, .. } => all.push(factor),
            TableFactor::NestedJoin { table_with_joins, .. } => add(table_with_joins, all),
            _ => {}
        }
    }
    let locks = std::mem::take(&mut query.locks);
    let ctes = query.with.as_ref().map_or(&[][..], |with| with.cte_tables.as_slice());
    let SetExpr::Select(select) = query.body.as_mut() else { return Vec::new() };
    let mut all = Vec::new();
    select.from.iter_mut().for_each(|from| add(from, &mut all));
    let lock = |factor: &'_ TableFactor| {
        let called = called(factor).filter(|_| !is_cte(factor, ctes))?;
        let of_it = |lock: &&LockClause| match lock.of.as_ref().map(|of| of.0.last().and_then(|part| part.as_ident())) {
            None => true,
            Some(of) => of.is_some_and(|of| fold(of) == fold(&called)),
        };
        let changes = locks.iter().filter(of_it).map(|lock| lock.lock_type == LockType::Update).max()?;
        let says = |what| locks.iter().filter(of_it).any(|lock| lock.nonblock == Some(what));
        // NOWAIT prevails over SKIP LOCKED, and that over a clause without either.
        let nonblock = [NonBlock::Nowait, NonBlock::SkipLocked].into_iter().find(|what| says(*what));
        Some((called, changes, nonblock))
    };
    let found = all.into_iter().filter_map(|factor| {
        let (called, changes, nonblock) = lock(factor)?;
        Some(LockedTable { factor, called, changes, nonblock })
    });
    found.collect()
}

/// Removes the clauses from the subquery of a condition `k = (SELECT k FROM t …)` or `k IN (…)` of a statement that
/// changes `t`, which locks these rows by changing them.
pub(crate) fn take_own(condition: Option<&mut Expr>, table: &TableWithJoins) {
    let (column, query) = match condition {
        Some(Expr::Nested(inner)) => return take_own(Some(inner), table),
        Some(Expr::InSubquery { expr, subquery, negated: false }) => (expr, subquery),
        Some(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) => match right.as_mut() {
            Expr::Subquery(query) => (left, query),
            _ => return,
        },
        _ => return,
    };
    let TableFactor::Table { name: written, .. } = &table.relation else { return };
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let [from] = select.from.as_slice() else { return };
    let TableFactor::Table { name, args: None, version: None, .. } = &from.relation else { return };
    let [SelectItem::UnnamedExpr(item)] = select.projection.as_slice() else { return };
    let last = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(fold(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        _ => None,
    };
    let same = name == written && from.joins.is_empty() && last(item).is_some() && last(item) == last(column);
    let waits = query.locks.iter().all(|lock| lock.nonblock.is_none());
    if same && waits && query.with.is_none() && beside(query, select).is_none() {
        query.locks.clear();
    }
}

/// Rewrites the clauses of subqueries to the forms that sqlparser knows: `UPDATE` and `SHARE` without `NO KEY` and
/// `KEY`, behind LIMIT.
pub(crate) fn normalize_nested(tokens: &mut TokenReader<'_>) {
    tokens.drop_between("for", &["no", "key"], "update");
    tokens.drop_between("for", &["key"], "share");
    tokens.locks_last();
}
