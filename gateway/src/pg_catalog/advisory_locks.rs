//! Functions of advisory locks, and what `pg_locks` shows of them.

use super::{
    cluster::OPERATOR_DATABASE,
    columns::{Cell, Row},
    row_function::row_function,
};
use crate::{
    advisory_locks::{LockInfo, LockKey, Request, SessionLocks, mode_name},
    context::StatementContext,
    pg::{
        error::{SqlError, SqlState},
        functions::{RowFunction, int_of, text},
        types,
    },
    pg_catalog::columns::row,
    settings,
};
use arrow::datatypes::{DataType, Field, FieldRef};
use async_trait::async_trait;
use datafusion::{
    error::{DataFusionError, Result},
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
        Volatility,
        async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl},
    },
    scalar::ScalarValue,
};
use std::sync::Arc;

/// What a function does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// Locks, and waits for it.
    Lock,
    /// Locks if it need not wait; whether it did.
    Try,
    /// Unlocks; whether there was a lock.
    Unlock,
}

/// The functions of numbers: what each does, whether exclusively, and whether it is for the transaction.
const FUNCTIONS: [(&str, Action, bool, bool); 10] = [
    ("pg_advisory_lock", Action::Lock, true, false),
    ("pg_advisory_lock_shared", Action::Lock, false, false),
    ("pg_advisory_xact_lock", Action::Lock, true, true),
    ("pg_advisory_xact_lock_shared", Action::Lock, false, true),
    ("pg_try_advisory_lock", Action::Try, true, false),
    ("pg_try_advisory_lock_shared", Action::Try, false, false),
    ("pg_try_advisory_xact_lock", Action::Try, true, true),
    ("pg_try_advisory_xact_lock_shared", Action::Try, false, true),
    ("pg_advisory_unlock", Action::Unlock, true, false),
    ("pg_advisory_unlock_shared", Action::Unlock, false, false),
];

/// A function of one number, or of two.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Locking {
    name: &'static str,
    action: Action,
    request: Request,
    signature: Signature,
}

/// The functions of numbers.
pub(super) fn locking_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    FUNCTIONS.into_iter().map(|(name, action, exclusive, of_transaction)| {
        use DataType::{Int32, Int64};
        // Numbers of a wider type come from literals.
        let arguments = [vec![Int64], vec![Int32, Int32], vec![Int64, Int64]].map(TypeSignature::Exact);
        let signature = Signature::one_of(arguments.to_vec(), Volatility::Volatile);
        let function = Locking { name, action, request: Request { exclusive, of_transaction }, signature };
        match action {
            Action::Lock => Arc::new(AsyncScalarUDF::new(Arc::new(function)).into_scalar_udf()),
            Action::Try | Action::Unlock => Arc::new(ScalarUDF::new_from_impl(function)),
        }
    })
}

impl Locking {
    /// The numbers of each row; `None` for NULL.
    fn keys(&self, args: &ScalarFunctionArgs) -> Result<Vec<Option<LockKey>>> {
        let arrays = args.args.iter().map(|array| array.to_array(args.number_rows)).collect::<Result<Vec<_>>>()?;
        let number = |at: usize, row: usize| -> Result<Option<i64>> {
            Ok(int_of(&ScalarValue::try_from_array(&arrays[at], row)?))
        };
        let key = |row: usize| -> Result<Option<LockKey>> {
            if arrays.len() < 2 {
                return Ok(number(0, row)?.map(LockKey::of));
            }
            let Some((first, second)) = number(0, row)?.zip(number(1, row)?) else { return Ok(None) };
            let half = |number: i64| {
                i32::try_from(number).map_err(|_| {
                    let message = format!("function {}(bigint, bigint) does not exist", self.name);
                    failed(SqlError::new(SqlState::UNDEFINED_FUNCTION, message))
                })
            };
            Ok(Some(LockKey::of_two(half(first)?, half(second)?)))
        };
        (0..args.number_rows).map(key).collect()
    }
}

fn failed(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

fn locks_of(statement: &StatementContext) -> Result<&SessionLocks> {
    let message = || failed(SqlError::new(SqlState::INTERNAL_ERROR, "an advisory lock needs a session"));
    statement.advisory_locks.as_deref().ok_or_else(message)
}

impl ScalarUDFImpl for Locking {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.action == Action::Lock { DataType::Utf8View } else { DataType::Boolean })
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = Field::new(self.name, self.return_type(&[])?, true);
        Ok(Arc::new(if self.action == Action::Lock { types::named(field, "void") } else { field }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.action == Action::Lock {
            let message = format!("{} outside of a select list or a condition in WHERE", self.name);
            return Err(DataFusionError::NotImplemented(message));
        }
        let locks = locks_of(StatementContext::within(&args.config_options)?)?;
        let one = |key: Option<LockKey>| -> Result<ScalarValue> {
            let done = match key {
                None => None,
                Some(key) if self.action == Action::Unlock => Some(locks.unlock(key, self.request.exclusive)),
                Some(key) => Some(locks.try_lock(key, self.request).map_err(failed)?),
            };
            Ok(ScalarValue::Boolean(done))
        };
        let done = self.keys(&args)?.into_iter().map(one).collect::<Result<Vec<_>>>()?;
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(done)?))
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Locking {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let statement = StatementContext::within(&args.config_options)?;
        let locks = locks_of(statement)?;
        let timeout = statement.settings.get("lock_timeout").and_then(|value| settings::timeout(value));
        let mut done = Vec::with_capacity(args.number_rows);
        for key in self.keys(&args)? {
            let now_micros = statement.instance.as_ref().map_or(0, |instance| instance.clock.now_micros());
            if let Some(key) = key {
                locks.lock(key, self.request, now_micros, timeout).await.map_err(failed)?;
            }
            done.push(ScalarValue::Utf8View(key.map(|_| String::new())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(done)?))
    }
}

/// The other functions.
pub(super) fn functions() -> [RowFunction; 2] {
    let pids = DataType::List(Arc::new(Field::new_list_field(DataType::Int32, true)));
    [
        row_function("pg_advisory_unlock_all", 0..=0, DataType::Utf8View, |_, statement| {
            locks_of(statement)?.unlock_all();
            Ok(text(""))
        })
        .with_volatility(Volatility::Volatile)
        .returning("void"),
        row_function("pg_blocking_pids", 1..=1, pids, |values, statement| {
            let found = match (int_of(&values[0]), &statement.instance) {
                (Some(process_id), Some(instance)) => {
                    let database = statement.rows.as_ref().and_then(|rows| rows.oid());
                    instance.advisory_locks.blocking(database, i32::try_from(process_id).unwrap_or_default())
                }
                _ => Vec::new(),
            };
            let found: Vec<_> = found.into_iter().map(|process_id| ScalarValue::Int32(Some(process_id))).collect();
            Ok(ScalarValue::List(ScalarValue::new_list_nullable(&found, &DataType::Int32)))
        })
        .with_volatility(Volatility::Volatile),
    ]
}

/// The rows of `pg_locks`: advisory locks alone. A tenant sees those of its database, the operator all.
pub(super) fn rows(statement: &StatementContext) -> Vec<Row> {
    let Some((instance, rows)) = statement.instance.as_ref().zip(statement.rows.as_ref()) else { return Vec::new() };
    let seen = |lock: &LockInfo| statement.operator || lock.database == rows.oid();
    let row = |LockInfo { database, key, process_id, exclusive, waits_since_micros }| {
        row! {
            "locktype" => "advisory", "database" => database.unwrap_or(OPERATOR_DATABASE),
            "classid" => key.class, "objid" => key.object, "objsubid" => i32::from(key.numbers),
            "relation" => Cell::Null, "page" => Cell::Null, "tuple" => Cell::Null, "virtualxid" => Cell::Null,
            "transactionid" => Cell::Null, "virtualtransaction" => format!("{process_id}/1"), "pid" => process_id,
            "mode" => mode_name(exclusive), "granted" => waits_since_micros.is_none(), "fastpath" => false,
            "waitstart" => waits_since_micros.map_or(Cell::Null, Cell::Micros),
        }
    };
    instance.advisory_locks.all().into_iter().filter(seen).map(row).collect()
}
