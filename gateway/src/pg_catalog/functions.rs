//! Functions.
use datafusion::execution::SessionState;
/// Registers the functions.
pub fn register(state: &mut SessionState) {
    let _ = state;
}
