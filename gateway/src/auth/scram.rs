//! SCRAM-SHA-256 (RFC 5802, RFC 7677), with channel binding over TLS (RFC 5929, `tls-server-end-point`).
//!
//! The store keeps what checks a proof, not the password ([`ScramSecret`]). The arithmetic is the wire library's; what
//! stands here is which secret is used, the mock secret of roles that do not exist included, and the errors that a client receives.

use crate::pg::error::{Result, SqlError, SqlState};
use keyspan_catalog::{Role, ScramSecret, Snapshot};
use pgwire::{
    api::auth::sasl::scram::{
        ScramSecret as Verifier, ScramServerAuth, ScramServerAuthWaitingForClientFinal, gen_salted_password,
    },
    error::PgWireError,
};

/// Rounds of PBKDF2 for new secrets: what RFC 7677 asks for and PostgreSQL uses.
pub const ITERATIONS: u32 = 4_096;
/// Bytes of a salt, as PostgreSQL has them.
pub const SALT_BYTES: usize = 16;
/// The mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding: over TLS only.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Makes the secret of a password, with a random salt. A secret in PostgreSQL's form,
/// `SCRAM-SHA-256$iterations:salt$stored key:server key`, is taken as it is: psql's `\password` sends one.
///
/// # Errors
/// 22023 for an empty password or a secret of another form.
pub fn secret_of(password: &str) -> Result<ScramSecret> {
    if password.is_empty() {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the password is empty"));
    }
    if let Some(secret) = password.strip_prefix("SCRAM-SHA-256$") {
        return stored_form(secret).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the password starts like a SCRAM secret but is none")
                .with_hint("Give the password itself, or SCRAM-SHA-256$iterations:salt$storedkey:serverkey.")
        });
    }
    let is_md5 = password.len() == 35 && password.starts_with("md5");
    if is_md5 && password[3..].bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(SqlError::unsupported("a password hashed by MD5").with_hint("Give the password itself."));
    }
    Ok(derive(password, rand::random::<[u8; SALT_BYTES]>().to_vec(), ITERATIONS))
}

/// Whether `password` is the password of `secret`.
pub fn is_password_of(password: &str, secret: &ScramSecret) -> bool {
    derive(password, secret.salt.clone(), secret.iterations).stored_key == secret.stored_key
}

fn derive(password: &str, salt: Vec<u8>, iterations: u32) -> ScramSecret {
    let rounds = iterations.max(1) as usize;
    let salted = gen_salted_password(password, &salt, rounds);
    match Verifier::verifier_from_salted_password(salt, salted, rounds) {
        Verifier::Verifier { salt, stored_key, server_key, .. } => {
            ScramSecret { salt, iterations, stored_key, server_key }
        }
        Verifier::SaltedPassword { .. } => unreachable!("the function makes a verifier"),
    }
}

fn stored_form(text: &str) -> Option<ScramSecret> {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let (first, keys) = text.split_once('$')?;
    let (iterations, salt) = first.split_once(':')?;
    let (stored_key, server_key) = keys.split_once(':')?;
    let secret = ScramSecret {
        salt: STANDARD.decode(salt).ok()?,
        iterations: iterations.parse().ok()?,
        stored_key: STANDARD.decode(stored_key).ok()?,
        server_key: STANDARD.decode(server_key).ok()?,
    };
    let fits = secret.iterations >= 1 && secret.stored_key.len() == 32 && secret.server_key.len() == 32;
    fits.then_some(secret)
}

/// The secret against which a role is checked: its own, or one that no password has.
///
/// The salt of the latter depends on the name and on a secret of the store, so that asking twice, or after a restart,
/// gives the same salt, as it does for a role that exists.
pub fn secret_for(snapshot: &Snapshot, role: &str) -> ScramSecret {
    if let Some(secret) = snapshot.role(role).and_then(|role| role.secret.clone()) {
        return secret;
    }
    let keys = |role: &std::sync::Arc<Role>| role.secret.as_ref().map(|secret| secret.server_key.clone());
    let pepper: String = match snapshot.roles.values().find_map(keys) {
        Some(key) => key.iter().map(|byte| format!("{byte:02x}")).collect(),
        None => "no role has a password".to_owned(),
    };
    let mut salt = gen_salted_password(&pepper, role.as_bytes(), 1);
    salt.truncate(SALT_BYTES);
    ScramSecret {
        salt,
        iterations: ITERATIONS,
        stored_key: rand::random::<[u8; 32]>().to_vec(),
        server_key: rand::random::<[u8; 32]>().to_vec(),
    }
}

/// What a server needs to bind an exchange to its certificate.
#[derive(Clone, Debug)]
pub struct ChannelBinding(ScramServerAuth);

impl ChannelBinding {
    /// Of the first certificate in PEM text; `None` for one whose signature names no hash (RFC 5929 leaves it open).
    pub fn of_certificate(pem: &[u8]) -> Option<Self> {
        let mut auth = ScramServerAuth::new();
        auth.configure_certificate(pem).ok().map(|()| Self(auth))
    }
}

/// The mechanisms to offer, the better one last, as the wire library's peers expect it.
pub fn mechanisms(binding: Option<&ChannelBinding>) -> Vec<String> {
    let mut names = vec![MECHANISM.to_owned()];
    names.extend(binding.map(|_| MECHANISM_PLUS.to_owned()));
    names
}

/// An exchange under way: the server's first message was made.
#[derive(Debug)]
pub struct Exchange {
    waiting: ScramServerAuthWaitingForClientFinal,
    role: String,
}

impl Exchange {
    /// Takes the client's first message; gives the exchange and the server's first message.
    ///
    /// # Errors
    /// 08P01 for a message or mechanism that breaks the protocol.
    pub fn start(
        role: &str,
        secret: ScramSecret,
        binding: Option<&ChannelBinding>,
        mechanism: &str,
        client_first: &[u8],
    ) -> Result<(Self, String)> {
        let offered = mechanisms(binding).iter().any(|name| name == mechanism);
        let binds = client_first.starts_with(b"p=");
        if !offered || binds != (mechanism == MECHANISM_PLUS) {
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, "client selected an invalid SASL mechanism"));
        }
        let plain = ScramServerAuth::new();
        let auth = binding.map_or(&plain, |binding| &binding.0);
        let secret = Verifier::Verifier {
            salt: secret.salt,
            iterations: secret.iterations as usize,
            stored_key: secret.stored_key,
            server_key: secret.server_key,
        };
        let (server_first, waiting) =
            auth.on_client_first_message_with_secret(client_first, secret).map_err(|error| refused(role, &error))?;
        Ok((Self { waiting, role: role.to_owned() }, server_first))
    }

    /// Takes the client's proof; gives the server's.
    ///
    /// # Errors
    /// 28P01 for a wrong password, 08P01 for a message that breaks the protocol.
    pub fn finish(&self, client_final: &[u8]) -> Result<String> {
        self.waiting.on_client_final_message(client_final).map_err(|error| refused(&self.role, &error))
    }
}

fn refused(role: &str, error: &PgWireError) -> SqlError {
    match error {
        PgWireError::InvalidPassword(_) => {
            SqlError::new(SqlState::INVALID_PASSWORD, format!("password authentication failed for user \"{role}\""))
        }
        _ => SqlError::new(SqlState::PROTOCOL_VIOLATION, "malformed SCRAM message").with_detail(format!("{error}.")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 7677, section 3: the user "user" with the password "pencil".
    const RFC: &str = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:\
                       wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=";

    #[test]
    fn a_stored_secret_is_that_of_its_password() {
        let secret = secret_of(RFC).unwrap();
        assert!(is_password_of("pencil", &secret));
        assert!(!is_password_of("Pencil", &secret));
        assert_eq!(secret, derive("pencil", secret.salt.clone(), 4_096));
    }

    #[test]
    fn two_secrets_of_a_password_differ() {
        let (one, other) = (secret_of("pencil").unwrap(), secret_of("pencil").unwrap());
        assert_ne!(one.salt, other.salt);
        assert!(is_password_of("pencil", &one) && is_password_of("pencil", &other));
    }

    #[test]
    fn what_is_no_password_is_refused() {
        for (password, state) in [
            ("", SqlState::INVALID_PARAMETER_VALUE),
            ("SCRAM-SHA-256$oops", SqlState::INVALID_PARAMETER_VALUE),
            ("md5d41d8cd98f00b204e9800998ecf8427e", SqlState::FEATURE_NOT_SUPPORTED),
        ] {
            assert_eq!(secret_of(password).unwrap_err().state, state, "{password:?}");
        }
        assert!(secret_of("md5 is not a hash here").is_ok());
    }

    #[test]
    fn an_unknown_role_has_the_same_salt_twice_and_no_password() {
        let snapshot = Snapshot::default();
        let (one, again) = (secret_for(&snapshot, "ana"), secret_for(&snapshot, "ana"));
        assert_eq!((one.salt.len(), &one.salt, one.iterations), (SALT_BYTES, &again.salt, ITERATIONS));
        assert_ne!(one.salt, secret_for(&snapshot, "bob").salt);
        assert!(!is_password_of("", &one));
    }

    #[test]
    fn a_wrong_proof_is_a_wrong_password_for_roles_known_and_unknown() {
        let snapshot = Snapshot::default();
        for secret in [secret_of(RFC).unwrap(), secret_for(&snapshot, "nobody")] {
            let (exchange, server_first) =
                Exchange::start("user", secret, None, MECHANISM, b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
            let nonce = server_first.strip_prefix("r=").unwrap().split(',').next().unwrap();
            let proof = "p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
            let error = exchange.finish(format!("c=biws,r={nonce},{proof}").as_bytes()).unwrap_err();
            assert_eq!(error.state, SqlState::INVALID_PASSWORD);
            assert_eq!(error.message, "password authentication failed for user \"user\"");
        }
    }

    #[test]
    fn a_mechanism_that_was_not_offered_is_refused() {
        let first = b"p=tls-server-end-point,,n=,r=abc".as_slice();
        for (mechanism, first) in [(MECHANISM_PLUS, first), (MECHANISM, first), ("PLAIN", b"n,,n=,r=abc".as_slice())] {
            let error = Exchange::start("user", secret_of(RFC).unwrap(), None, mechanism, first).unwrap_err();
            assert_eq!(error.state, SqlState::PROTOCOL_VIOLATION);
        }
    }
}
