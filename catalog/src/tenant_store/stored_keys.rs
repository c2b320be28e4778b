//! Keys as a session names them beside keys as the store has them, for those who only compare and count.

use super::{TenantStore, join, span, span_of, tenant_of, within_span};
use crate::{Table, TenantId};
use bytes::Bytes;
use keyspan_storage::KeyRange;
use std::cmp::Ordering;

/// Where a session's keys of a table are in the store.
#[derive(Clone, Debug)]
pub struct StoredKeys {
    /// The prefix of every key; empty for the operator.
    span: Bytes,
    tenant: Option<TenantId>,
}

impl TenantStore {
    /// Where the keys of a table are in the store.
    pub fn stored_keys(&self, table: &Table) -> StoredKeys {
        let span = self.tenant.as_ref().map_or_else(Bytes::new, |tenant| span_of(tenant, table));
        StoredKeys { span, tenant: self.tenant.clone() }
    }
}

impl StoredKeys {
    /// The key as the store has it.
    pub fn stored(&self, key: &[u8]) -> Bytes {
        join(&self.span, key)
    }

    /// Compares a key with one of the store.
    pub fn compare(&self, key: &[u8], stored: &[u8]) -> Ordering {
        match stored.strip_prefix(&*self.span) {
            Some(rest) => key.cmp(rest),
            // They differ within the span, or the stored one is a part of it.
            None => self.span.as_ref().cmp(stored),
        }
    }

    /// A range of the session's keys as the store has it.
    pub fn range(&self, range: &KeyRange) -> KeyRange {
        if self.span.is_empty() { range.clone() } else { super::within(&self.span, range) }
    }

    /// A range of the store as the session names it: that of the whole span has no end. `None` if it is not within the
    /// span.
    pub fn without_span(&self, range: &KeyRange) -> Option<KeyRange> {
        if self.span.is_empty() {
            return Some(range.clone());
        }
        let cut = |key: &Bytes| key.strip_prefix(&*self.span).map(Bytes::copy_from_slice);
        within_span(&self.span, range)
            .then(|| KeyRange { start: cut(&range.start).unwrap_or_default(), end: range.end.as_ref().and_then(cut) })
    }

    /// The tenant in whose span a key is, and the span; `None` for a key of the operator's that is in none.
    pub fn tenant_of(&self, key: &[u8]) -> Option<(TenantId, KeyRange)> {
        match &self.tenant {
            Some(tenant) => Some((tenant.clone(), KeyRange::prefix(self.span.clone()))),
            None => tenant_of(key).ok().zip(span_at(key)),
        }
    }
}

/// The span of the tenant that a key of the store is in; `None` for one that is in none.
pub fn span_at(stored: &[u8]) -> Option<KeyRange> {
    tenant_of(stored).ok().map(|tenant| KeyRange::prefix(span(&tenant)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(tenant: Option<&str>) -> StoredKeys {
        let tenant = tenant.map(|id| TenantId::new(id).unwrap());
        StoredKeys { span: tenant.as_ref().map_or_else(Bytes::new, span), tenant }
    }

    #[test]
    fn ranges_lose_their_span_within_it_only() {
        let alto = keys(Some("alto"));
        for range in [KeyRange::all(), KeyRange::prefix("a"), KeyRange::new("a", None), KeyRange::point(b"k")] {
            assert_eq!(alto.without_span(&alto.range(&range)), Some(range));
        }
        for other in
            [KeyRange::all(), KeyRange::prefix("alto"), KeyRange::prefix("bari#"), KeyRange::new("alto#x", None)]
        {
            assert_eq!(alto.without_span(&other), None, "{other:?}");
        }
        let operator = keys(None);
        assert_eq!(operator.without_span(&KeyRange::prefix("x")), Some(KeyRange::prefix("x")));
        assert_eq!(operator.tenant_of(b"bari#k"), Some((TenantId::new("bari").unwrap(), KeyRange::prefix("bari#"))));
        assert_eq!(operator.tenant_of(b"none"), None);
        assert_eq!((span_at(b"bari#"), span_at(b"bari")), (Some(KeyRange::prefix("bari#")), None));
        assert_eq!(alto.tenant_of(b"bari#k").unwrap().1, KeyRange::prefix("alto#"));
    }

    proptest! {
        #[test]
        fn keys_compare_as_the_store_compares_them(key in "[#-$a]{0,3}", stored in "(alto|alt|altp)?[#-$a]{0,3}") {
            for keys in [keys(Some("alto")), keys(None)] {
                let full = keys.stored(key.as_bytes());
                prop_assert_eq!(keys.compare(key.as_bytes(), stored.as_bytes()), full.as_ref().cmp(stored.as_bytes()));
            }
        }
    }
}
