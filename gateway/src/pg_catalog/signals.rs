//! Functions that stop other sessions: `pg_cancel_backend()`, `pg_terminate_backend()`.
//!
//! As in PostgreSQL, a role stops its own sessions, and an operator all. A session sees only those of its own database,
//! an operator in the operator's database those of all: for any other number there is no such session.

use crate::{
    activity::{Activity, Controls},
    audit::Event,
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, int_of},
    },
    pg_catalog::row_function::row_function,
};
use arrow::datatypes::DataType;
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::Volatility,
    scalar::ScalarValue,
};

/// The functions.
pub(super) fn functions() -> [RowFunction; 2] {
    [
        row_function("pg_cancel_backend", 1..=1, DataType::Boolean, |values, statement| {
            signal(&values[0], statement, "canceled", Controls::cancel)
        })
        .with_volatility(Volatility::Volatile),
        // The time that it may wait for the end is taken, and not waited for.
        row_function("pg_terminate_backend", 1..=2, DataType::Boolean, |values, statement| {
            signal(&values[0], statement, "terminated", |controls| controls.ending.cancel())
        })
        .with_volatility(Volatility::Volatile),
    ]
}

/// Whether there is a session of this number; it is stopped then.
fn signal(
    process_id: &ScalarValue,
    statement: &StatementContext,
    done: &str,
    stop: fn(&Controls),
) -> Result<ScalarValue> {
    let Some(process_id) = int_of(process_id) else { return Ok(ScalarValue::Boolean(None)) };
    let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else {
        return Ok(ScalarValue::Boolean(Some(false)));
    };
    let is_operator = |role: &str| statement.snapshot.role(role).is_some_and(|role| role.operator);
    let is_seen = |activity: &Activity| statement.operator || activity.tenant == rows.oid();
    let all = instance.activities.all().into_iter().filter(is_seen);
    let Some(found) = all.into_iter().find(|activity| i64::from(activity.process_id) == process_id) else {
        return Ok(ScalarValue::Boolean(Some(false)));
    };
    // Members have the rights of their role; sessions of operators are for operators.
    let oid = |role: &str| statement.snapshot.role(role).map(|role| role.oid);
    let is_member = !is_operator(&found.role)
        && oid(&statement.role)
            .zip(oid(&found.role))
            .is_some_and(|(me, of)| statement.snapshot.roles_with(statement.tenant.as_ref(), me).contains(&of));
    if found.role != statement.role && !is_operator(&statement.role) && !is_member {
        let message = format!("must be a member of the role whose process is being {done}");
        return Err(DataFusionError::External(Box::new(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message))));
    }
    let event = Event::new(if done == "canceled" { "cancel" } else { "terminate" });
    let event = event.by(&statement.role, &statement.database, statement.process_id).with("target_pid", process_id);
    instance.audit.record(instance.clock.now_micros(), event.text("target_role", &found.role));
    stop(&found.controls);
    Ok(ScalarValue::Boolean(Some(true)))
}
