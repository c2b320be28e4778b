//! DataFusion's sessions of statements: a state that all statements of a server start from, and the statement with
//! what it sees.
//!
//! Texts name functions, so the state that plans them has all, and copying these takes as long as a short query. What
//! is planned already names none: from there on states and contexts are without them.

use super::{schemas, state, views};
use crate::{
    context::StatementContext,
    pg::{exec::compact::CompactBatches, functions::bounded::ResultBytes},
    resources::{QueryStates, Resources},
    view::View,
};
use datafusion::{
    config::ConfigOptions,
    execution::{SessionState, SessionStateBuilder, TaskContext},
    prelude::SessionContext,
};
use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

/// A DataFusion session for a statement, over the rows that a view sees.
pub(crate) fn over(statement: Arc<StatementContext>, view: &View) -> SessionContext {
    let needs = statement.needs.clone();
    let context = context(statement, schemas::Rows::of(view));
    for (name, function) in crate::provider::functions(view, &needs) {
        context.register_udtf(name, function);
    }
    context
}

/// A DataFusion session for a statement, over rows.
pub(crate) fn context(statement: Arc<StatementContext>, rows: schemas::Rows) -> SessionContext {
    nested_context(statement, rows, views::Nesting::default())
}

/// The same inside of views.
pub(super) fn nested_context(
    statement: Arc<StatementContext>,
    rows: schemas::Rows,
    nesting: views::Nesting,
) -> SessionContext {
    with_context(state(&statement, |states| &states.with_functions), statement, rows, nesting)
}

/// A copy of one of the states that a statement starts from.
fn state(statement: &StatementContext, which: impl FnOnce(&QueryStates) -> &SessionState) -> SessionState {
    which(states(statement)).clone()
}

/// The states that a statement starts from.
fn states(statement: &StatementContext) -> &QueryStates {
    static WITHOUT_SERVER: LazyLock<QueryStates> = LazyLock::new(|| QueryStates::of(state::state().clone()));
    match &statement.instance {
        Some(instance) => {
            let resources = &instance.resources;
            resources.states.get_or_init(|| QueryStates::of(with_resources(resources)))
        }
        None => &WITHOUT_SERVER,
    }
}

/// Gives a state its statement.
fn with_context(
    mut state: SessionState,
    statement: Arc<StatementContext>,
    rows: schemas::Rows,
    nesting: views::Nesting,
) -> SessionContext {
    state.config_mut().set_extension(Arc::<crate::pg::exec::materialized::Shared>::default());
    tell(state.config_mut().options_mut(), &statement);
    state.register_catalog_list(Arc::new(schemas::Databases::new(statement, rows, nesting)));
    state.mark_start_execution();
    SessionContext::new_with_state(state)
}

/// Gives a configuration its statement.
fn tell(options: &mut ConfigOptions, statement: &Arc<StatementContext>) {
    options.catalog.default_catalog.clone_from(&statement.database);
    options.execution.target_partitions = statement.streams();
    options.extensions.insert(statement.time());
    options.extensions.insert(crate::pg::datetime::style::Carried(statement.style.clone()));
    options.extensions.insert(statement.cancelled.clone());
    options.extensions.insert(crate::context::Carried(statement.clone()));
}

/// The configuration of no statement.
pub(crate) fn bare_options(statement: &StatementContext) -> Arc<ConfigOptions> {
    states(statement).without_functions.config_options().clone()
}

/// The configuration in which a statement's expressions run that are not planned anew.
pub(crate) fn options_of(statement: &Arc<StatementContext>) -> Arc<ConfigOptions> {
    let mut options = bare_options(statement).as_ref().clone();
    tell(&mut options, statement);
    Arc::new(options)
}

/// The state that all statements of a server start from.
fn with_resources(resources: &Resources) -> SessionState {
    let template = state::state();
    let mut config = template.config().clone().with_batch_size(resources.memory.batch_rows());
    let options = config.options_mut();
    options.extensions.insert(ResultBytes(resources.memory.result_bytes()));
    options.execution.sort_spill_reservation_bytes = resources.memory.sort_aside_bytes();
    if resources.memory.is_scarce() {
        // Sorted texts keep the buffers that they came in alive, and every batch of them counts all of these once more.
        // So runs are not put together before they are sorted, which would give many batches of the same buffers,
        options.execution.sort_in_place_threshold_bytes = 0;
        // and one sort writes to files and merges, not one for each stream with a merge of all on top, for which no
        // room is kept.
        options.optimizer.repartition_sorts = false;
    }
    let state = SessionStateBuilder::new_from_existing(template.clone())
        .with_session_id(String::new())
        .with_config(config)
        .with_runtime_env(resources.runtime.clone());
    match resources.memory.is_scarce() {
        true => state.with_physical_optimizer_rule(Arc::new(CompactBatches)).build(),
        false => state.build(),
    }
}

/// A DataFusion session for plans that were kept, over the rows that a view sees.
pub(super) fn of_plans(statement: Arc<StatementContext>, view: &View) -> SessionContext {
    let state = state(&statement, |states| &states.without_functions);
    with_context(state, statement, schemas::Rows::of(view), views::Nesting::default())
}

/// The state of a session without its functions.
pub(super) fn for_plans(context: &SessionContext, statement: &StatementContext) -> SessionState {
    let of_texts = context.state_ref();
    let of_texts = of_texts.read();
    let mut state = state(statement, |states| &states.without_functions);
    *state.config_mut() = of_texts.config().clone();
    state.register_catalog_list(Arc::clone(of_texts.catalog_list()));
    // Functions know the statement by it.
    state.mark_start_execution();
    state
}

/// What a plan runs in.
pub(super) fn task_context(context: &SessionContext) -> Arc<TaskContext> {
    let state = context.state_ref();
    let state = state.read();
    let id = state.session_id().to_owned();
    let none = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
    let runtime = Arc::clone(state.runtime_env());
    Arc::new(TaskContext::new(None, id, state.config().clone(), none.0, none.1, none.2, none.3, runtime))
}
