//! The messages, clients and servers of the Bigtable API, as generated code: data and table administration.
//!
//! `examples/generate.rs` wrote `generated/` from Google's files (Apache-2.0), as the npm packages `google-gax` 5.0.8
//! and `@google-cloud/bigtable` 6.5.1 carry them (copyright Google LLC). Nobody edits it by hand. Bytes are
//! [`bytes::Bytes`], so that keys and values are slices of the message that brought them. The transport is the
//! caller's: a client takes any [`tonic::client::GrpcService`].

#![allow(missing_docs, rustdoc::all, clippy::all, clippy::pedantic, reason = "generated code")]

/// The modules are nested as the packages are, since generated code names other packages by relative paths.
pub mod google {
    pub mod bigtable {
        pub mod v2 {
            include!("generated/google.bigtable.v2.rs");
        }
        #[cfg(feature = "testproxy")]
        pub mod testproxy {
            include!("generated/google.bigtable.testproxy.rs");
        }
        pub mod admin {
            pub mod v2 {
                include!("generated/google.bigtable.admin.v2.rs");
            }
        }
    }
    pub mod iam {
        pub mod v1 {
            include!("generated/google.iam.v1.rs");
        }
    }
    pub mod longrunning {
        include!("generated/google.longrunning.rs");
    }
    pub mod rpc {
        include!("generated/google.rpc.rs");
    }
    pub mod r#type {
        include!("generated/google.type.rs");
    }
}

#[cfg(feature = "testproxy")]
pub use google::bigtable::testproxy;
pub use google::{
    bigtable::{admin::v2 as admin, v2 as data},
    longrunning, rpc,
};
