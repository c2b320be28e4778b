//! Names of enumerated types in a query's casts.
//!
//! The planner of types knows no catalog. So before a query is planned the name of such a type becomes one that holds
//! the type itself ([`type_planner::enumerated`]); before a view or a condition is stored it becomes the type's number
//! ([`bind`](EnumNames::bind)), so that they go on to mean it when it gets another name.

use super::enum_type;
use crate::pg::{
    ident::{fold, quote_ident, unquoted},
    names::{RelationName, Schema, SearchPath},
    plan::type_planner,
};
use datafusion::sql::sqlparser::ast::{self, DataType, Expr, Ident, ObjectName, ObjectNamePart, VisitMut, VisitorMut};
use keyspan_catalog::{
    EnumType, Private, Snapshot, TenantId,
    enum_type::{BOUND, bound_name},
};
use std::{ops::ControlFlow, sync::Arc};

/// What names of types mean to a statement.
#[derive(Clone, Copy)]
pub(crate) struct EnumNames<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) tenant: Option<&'a TenantId>,
    pub(crate) path: &'a SearchPath,
}

impl<'a> EnumNames<'a> {
    fn own(self) -> Option<&'a Private> {
        Some(self.snapshot.private_of(self.tenant)?.as_ref()).filter(|own| !own.enum_types.is_empty())
    }

    /// The type with an OID.
    pub(crate) fn of_oid(self, oid: u32) -> Option<&'a Arc<EnumType>> {
        self.own()?.enum_types.get(&oid)
    }

    /// The OID of the type that a text names.
    pub(crate) fn oid_of(self, text: &str) -> Option<u32> {
        let parts: Vec<String> = text.split('.').map(unquoted).collect();
        let name = match parts.as_slice() {
            [name] => RelationName { schema: None, name: name.clone() },
            [schema, name] => RelationName::within(Schema::named(schema), name.as_str()),
            _ => return None,
        };
        enum_type(self.snapshot, self.tenant, self.path, &name).map(|of| of.id)
    }

    /// Puts types in the place of their names, or of their numbers.
    pub(crate) fn resolve(self, query: &mut ast::Statement) {
        let Some(own) = self.own() else { return };
        each(query, |name| {
            let of = match number(name) {
                Some(number) => own.enum_types.get(&number),
                None => self.named(name),
            };
            of.map(|of| type_planner::enumerated(of))
        });
    }

    /// Puts numbers of types in the place of their names.
    pub(crate) fn bind(self, query: &mut impl VisitMut) {
        if self.own().is_none() {
            return;
        }
        each(query, |name| {
            let of = self.named(name)?;
            let parts = [BOUND.to_owned(), of.id.to_string()];
            let parts = parts.map(|part| ObjectNamePart::Identifier(Ident::with_quote('"', part)));
            Some(DataType::Custom(ObjectName(parts.into()), Vec::new()))
        });
    }

    /// The text of a view's query, or of a condition, with the names that types have now.
    pub(crate) fn shown(self, text: String) -> String {
        let types = self.own().into_iter().flat_map(|own| own.enum_types.values());
        types.fold(text, |text, of| text.replace(&bound_name(of.id), &self.type_name(of)))
    }

    /// A type's name as `format_type` prints it: with its schema where the path does not lead to it.
    pub(crate) fn type_name(self, of: &EnumType) -> String {
        let quoted = quote_ident(&of.name);
        let name = RelationName { schema: None, name: of.name.clone() };
        let found = enum_type(self.snapshot, self.tenant, self.path, &name);
        if found.is_some_and(|found| found.id == of.id) && is_free(&of.name) {
            return quoted;
        }
        let schema = self.snapshot.private_of(self.tenant).and_then(|own| own.schema_name(of.schema));
        format!("{}.{quoted}", quote_ident(schema.unwrap_or_default()))
    }

    fn named(self, name: &ObjectName) -> Option<&'a Arc<EnumType>> {
        let parts: Vec<String> = name.0.iter().map(|part| part.as_ident().map(fold)).collect::<Option<_>>()?;
        let name = match parts.as_slice() {
            [name] if is_free(name) => RelationName { schema: None, name: name.clone() },
            [schema, name] => RelationName::within(Schema::named(schema), name.as_str()),
            _ => return None,
        };
        enum_type(self.snapshot, self.tenant, self.path, &name)
    }
}

/// Whether a name that stands alone is none of PostgreSQL's types, which come first.
fn is_free(name: &str) -> bool {
    !type_planner::is_known(name)
}

/// The number in a name that [`bind`](EnumNames::bind) has made.
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
