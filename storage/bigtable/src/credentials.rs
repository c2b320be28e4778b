//! Application default credentials: who the requests come from.

use crate::{Error, Result};
use object_store::gcp::{GcpCredentialProvider, GoogleCloudStorageBuilder};

/// The source of the tokens that requests carry. It keeps a token until shortly before its end.
#[derive(Clone, Debug)]
pub struct Credentials(GcpCredentialProvider);

impl Credentials {
    /// Finds the application default credentials: the file that `GOOGLE_APPLICATION_CREDENTIALS` names, that of
    /// `gcloud auth application-default login`, or the machine's service account.
    ///
    /// # Errors
    /// [`Error::Credentials`] if there are none, or they cannot be read.
    pub fn application_default() -> Result<Self> {
        // Those for storage are good for every service: the scope is the whole platform. No bucket is used.
        let store = GoogleCloudStorageBuilder::from_env().with_bucket_name("none").build();
        let store = store.map_err(|error| Error::Credentials(error.to_string()))?;
        Ok(Self(store.credentials().clone()))
    }

    /// The value of the header `authorization`.
    ///
    /// # Errors
    /// [`Error::Credentials`] if no token is given.
    pub async fn header(&self) -> Result<String> {
        let token = self.0.get_credential().await.map_err(|error| Error::Credentials(error.to_string()))?;
        Ok(format!("Bearer {}", token.bearer))
    }
}
