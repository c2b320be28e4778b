//! Values of ours that DataFusion's configuration carries to functions and operators.

/// Makes a type one that a configuration carries, under a prefix of its own. Nothing of it can be set by name.
#[macro_export]
macro_rules! carried {
    ($kind:ty, $prefix:literal) => {
        impl ::datafusion::common::config::ConfigExtension for $kind {
            const PREFIX: &'static str = $prefix;
        }

        impl ::datafusion::common::config::ExtensionOptions for $kind {
            fn as_any(&self) -> &dyn ::std::any::Any {
                self
            }
            fn as_any_mut(&mut self) -> &mut dyn ::std::any::Any {
                self
            }
            fn cloned(&self) -> Box<dyn ::datafusion::common::config::ExtensionOptions> {
                Box::new(self.clone())
            }
            fn set(&mut self, key: &str, _value: &str) -> ::datafusion::error::Result<()> {
                ::datafusion::common::exec_err!("{key} cannot be set")
            }
            fn entries(&self) -> Vec<::datafusion::common::config::ConfigEntry> {
                Vec::new()
            }
        }
    };
}
pub use carried;
