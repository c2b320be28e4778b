//! Who a session is.

use keyspan_catalog::TenantStore;

/// Who a session is; fixed at authentication.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The role.
    pub role: String,
    /// Whether it is an operator in the operator's database: defines tables, tenants and roles.
    pub operator: bool,
    /// The database: a tenant's id, or `keyspan`.
    pub database: String,
    /// The only door to rows.
    pub rows: TenantStore,
}
