//! Names of the tenant's types in a query's casts.
//!
//! The planner of types knows no catalog. So before a query is planned the name of such a type becomes one that holds
//! the type itself ([`type_planner::enumerated`]) or the number of a domain ([`domains`](crate::query::domains));
//! before a view or a condition is stored it becomes the type's number ([`bind`](TypeNames::bind)), so that they go on
//! to mean it when it gets another name.

use super::{OwnType, own_type};
use crate::pg::{
    ident::{fold, quote_ident, unquoted},
    names::{RelationName, Schema, SearchPath},
    plan::type_planner,
};
use datafusion::sql::sqlparser::ast::{self, DataType, Expr, Ident, ObjectName, ObjectNamePart, VisitMut, VisitorMut};
use keyspan_catalog::{
    Private, Snapshot, TenantId,
    enum_type::{BOUND, bound_name},
};
use std::ops::ControlFlow;

/// What names of types mean to a statement.
#[derive(Clone, Copy)]
pub(crate) struct TypeNames<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) tenant: Option<&'a TenantId>,
    pub(crate) path: &'a SearchPath,
}

impl<'a> TypeNames<'a> {
    fn own(self) -> Option<&'a Private> {
        let has_types = |own: &&Private| !(own.enum_types.is_empty() && own.domains.is_empty());
        Some(self.snapshot.private_of(self.tenant)?.as_ref()).filter(has_types)
    }

    /// The type with an OID.
    pub(crate) fn of_oid(self, oid: u32) -> Option<OwnType> {
        let own = self.own()?;
        let domain = || own.domains.get(&oid).cloned().map(OwnType::Domain);
        own.enum_types.get(&oid).cloned().map(OwnType::Enum).or_else(domain)
    }

    /// The OID of the type that a text names.
    pub(crate) fn oid_of(self, text: &str) -> Option<u32> {
        let parts: Vec<String> = text.split('.').map(unquoted).collect();
        let name = match parts.as_slice() {
            [name] => RelationName { schema: None, name: name.clone() },
            [schema, name] => RelationName::within(Schema::named(schema), name.as_str()),
            _ => return None,
        };
        own_type(self.snapshot, self.tenant, self.path, &name).map(|of| of.id())
    }

    /// Puts types in the place of their names, or of their numbers.
    pub(crate) fn resolve(self, query: &mut ast::Statement) {
        if self.own().is_none() {
            return;
        }
        each(query, |name| {
            let of = match number(name) {
                Some(number) => self.of_oid(number),
                None => self.named(name),
            };
            Some(match of? {
                OwnType::Enum(of) => type_planner::enumerated(&of),
                OwnType::Domain(of) => type_planner::domain(&of),
            })
        });
    }

    /// Puts numbers of types in the place of their names.
    pub(crate) fn bind(self, query: &mut impl VisitMut) {
        if self.own().is_none() {
            return;
        }
        each(query, |name| {
            let of = self.named(name)?;
            let parts = [BOUND.to_owned(), of.id().to_string()];
            let parts = parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part)));
            Some(DataType::Custom(ObjectName(parts.into()), Vec::new()))
        });
    }

    /// The text of a view's query, or of a condition, with the names that types have now.
    pub(crate) fn shown(self, text: String) -> String {
        let Some(own) = self.own() else { return text };
        let types = own.enum_types.keys().chain(own.domains.keys()).copied();
        let bound = types.filter(|id| text.contains(&bound_name(*id))).collect::<Vec<_>>();
        let bound = bound.into_iter().filter_map(|id| self.of_oid(id));
        bound.fold(text, |text, of| text.replace(&bound_name(of.id()), &self.type_name(&of)))
    }

    /// A type's name as `format_type` prints it: with its schema where the path does not lead to it.
    pub(crate) fn type_name(self, of: &OwnType) -> String {
        let quoted = quote_ident(of.name());
        let name = RelationName { schema: None, name: of.name().to_owned() };
        let found = own_type(self.snapshot, self.tenant, self.path, &name);
        if found.is_some_and(|found| found.id() == of.id()) && is_free(of.name()) {
            return quoted;
        }
        let schema = self.snapshot.private_of(self.tenant).and_then(|own| own.schema_name(of.schema()));
        format!("{}.{quoted}", quote_ident(schema.unwrap_or_default()))
    }

    fn named(self, name: &ObjectName) -> Option<OwnType> {
        let parts: Vec<String> = name.0.iter().map(|part| part.as_ident().map(fold)).collect::<Option<_>>()?;
        let name = match parts.as_slice() {
            [name] if is_free(name) => RelationName { schema: None, name: name.clone() },
            [schema, name] => RelationName::within(Schema::named(schema), name.as_str()),
            _ => return None,
        };
        own_type(self.snapshot, self.tenant, self.path, &name)
    }
}

/// Whether a name that stands alone is none of PostgreSQL's types, which come first.
fn is_free(name: &str) -> bool {
    !type_planner::is_known(name)
}

/// The number in a name that [`bind`](TypeNames::bind) has made.
fn number(name: &ObjectName) -> Option<u32> {
    let [schema, number] = name.0.as_slice() else { return None };
    let is_bound = schema.as_ident()?.value == BOUND;
    is_bound.then(|| number.as_ident()?.value.parse().ok()).flatten()
}

fn each(query: &mut impl VisitMut, find: impl Fn(&ObjectName) -> Option<DataType>) {
    struct Casts<F>(F);
    impl<F: Fn(&ObjectName) -> Option<DataType>> VisitorMut for Casts<F> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Cast { data_type, .. } = expr {
                let mut named = data_type;
                while let DataType::Array(
                    ast::ArrayElemTypeDef::SquareBracket(item, _) | ast::ArrayElemTypeDef::Parenthesis(item),
                ) = named
                {
                    named = item.as_mut();
                }
                if let DataType::Custom(name, arguments) = named
                    && arguments.is_empty()
                    && let Some(found) = (self.0)(name)
                {
                    *named = found;
                }
            }
            ControlFlow::Continue(())
        }
    }
    let _ = VisitMut::visit(query, &mut Casts(find));
}
