//! The rights that a write needs on its target, by its syntax tree.
//!
//! As in PostgreSQL, who reads a column of the target, in a condition, a value or RETURNING, needs SELECT as well. Of
//! what a write reads elsewhere the planner takes note, when it looks names up.

use crate::sql::{
    ast::{
        Statement,
        merge::{Merge, MergeAction},
    },
    write::{OnConflict, on_conflict},
};
use datafusion::sql::sqlparser::ast::{self, Expr, Visit, visit_expressions};
use keyspan_catalog::Privileges;
use std::ops::ControlFlow;

/// The rights that a write needs on its target.
pub(crate) fn on_target(statement: &Statement) -> Privileges {
    let selects = |reads: bool| if reads { Privileges::SELECT } else { Privileges::NONE };
    match statement {
        Statement::Insert(insert) => of_insert(insert),
        Statement::Update(update) => {
            Privileges::UPDATE | selects(reads_columns(update.as_ref()) || update.returning.is_some())
        }
        Statement::Delete(delete) | Statement::Erase(delete) => {
            Privileges::DELETE | selects(reads_columns(delete.as_ref()) || delete.returning.is_some())
        }
        Statement::Merge(merge) => of_merge(merge),
        _ => Privileges::SELECT,
    }
}

fn of_insert(insert: &ast::Insert) -> Privileges {
    let returning = if insert.returning.is_some() { Privileges::SELECT } else { Privileges::NONE };
    // What is wrong with the clause is reported when the statement is bound.
    let conflict = match on_conflict(insert) {
        Ok(OnConflict::Fail | OnConflict::Nothing { target: None }) => Privileges::NONE,
        Ok(OnConflict::Nothing { target: Some(_) }) => Privileges::SELECT,
        Ok(OnConflict::Update { .. }) | Err(_) => Privileges::SELECT | Privileges::UPDATE,
    };
    Privileges::INSERT | returning | conflict
}

fn of_merge(merge: &Merge) -> Privileges {
    let action = |action: &MergeAction| match action {
        MergeAction::Nothing => Privileges::NONE,
        MergeAction::Delete => Privileges::DELETE,
        MergeAction::Update(_) => Privileges::UPDATE,
        MergeAction::Insert { .. } => Privileges::INSERT,
    };
    merge.clauses.iter().fold(Privileges::SELECT, |all, clause| all | action(&clause.action))
}

/// Whether an expression of a statement names a column: it may be one of the target.
fn reads_columns(statement: &impl Visit) -> bool {
    let found = visit_expressions(statement, |expr| match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::QualifiedWildcard(..) | Expr::Wildcard(_) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
mod tests {
    use super::on_target;
    use crate::sql::ast::Statement;
    use keyspan_catalog::Privileges;

    fn letters(sql: &str) -> String {
        let statement = Statement::parse(sql).unwrap().swap_remove(0);
        let privileges: Privileges = on_target(&statement);
        privileges.each().map(|(_, letter, _)| letter).collect()
    }

    #[test]
    fn who_reads_the_target_needs_select() {
        for (sql, wanted) in [
            ("INSERT INTO t VALUES (1)", "a"),
            ("INSERT INTO t SELECT x FROM s", "a"),
            ("INSERT INTO t VALUES (1) RETURNING k", "ar"),
            ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", "a"),
            ("INSERT INTO t VALUES (1) ON CONFLICT (k) DO NOTHING", "ar"),
            ("INSERT INTO t VALUES (1) ON CONFLICT (k) DO UPDATE SET v = 1", "arw"),
            ("UPDATE t SET v = 1", "w"),
            ("UPDATE t SET v = v + 1", "rw"),
            ("UPDATE t SET v = 1 WHERE k = 1", "rw"),
            ("UPDATE t SET v = 1 WHERE EXISTS (SELECT 1 FROM s WHERE s.x = t.k)", "rw"),
            ("UPDATE t SET v = 1 RETURNING *", "rw"),
            ("DELETE FROM t", "d"),
            ("DELETE FROM t WHERE k = 1", "rd"),
            ("DELETE FROM t RETURNING 1", "rd"),
            ("MERGE INTO t USING s ON t.k = s.x WHEN MATCHED THEN DELETE", "rd"),
            ("MERGE INTO t USING s ON t.k = s.x WHEN NOT MATCHED THEN INSERT VALUES (x, 1)", "ar"),
            ("MERGE INTO t USING s ON t.k = s.x WHEN MATCHED THEN UPDATE SET v = 1", "rw"),
        ] {
            assert_eq!(letters(sql), wanted, "{sql}");
        }
    }
}
