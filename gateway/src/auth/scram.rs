//! SCRAM-SHA-256 (RFC 5802, RFC 7677), with channel binding over TLS (RFC 5929, `tls-server-end-point`).
//!
//! The store keeps what checks a proof, not the password ([`ScramSecret`]). The arithmetic is the wire library's; what
//! stands here is which secret is used, the mock secret of roles that do not exist included, and the errors that a
//! client receives.

use crate::pg::error::{Result, SqlError, SqlState};
use keyspan_catalog::{Catalog, Edit, MockNonce, Role, ScramSecret, Snapshot};
use pgwire::{
    api::auth::sasl::scram::{
        ScramSecret as Verifier, ScramServerAuth, ScramServerAuthWaitingForClientFinal, gen_salted_password,
    },
    error::PgWireError,
};
use std::{fmt::Display, ops::RangeInclusive, sync::Arc};

/// Rounds of PBKDF2 for new secrets: what RFC 7677 asks for and PostgreSQL uses.
pub const ITERATIONS: u32 = 4_096;
/// Bytes of a salt, as PostgreSQL has them.
pub const SALT_BYTES: usize = 16;
/// Rounds that a secret in PostgreSQL's form may have. With fewer it is guessed soon; with more each log-in costs the
/// client seconds.
pub const ITERATIONS_ALLOWED: RangeInclusive<u32> = ITERATIONS..=1_000_000;
/// Bytes of a salt that a secret in PostgreSQL's form may have. The salt goes to everybody who asks to log in.
pub const SALT_BYTES_ALLOWED: RangeInclusive<usize> = 8..=64;
/// Bytes of a stored key and of a server key: of a SHA-256.
const KEY_BYTES: usize = 32;
/// The mechanism without channel binding.
pub const MECHANISM: &str = "SCRAM-SHA-256";
/// The mechanism with channel binding: over TLS only.
pub const MECHANISM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Makes the secret of a password, with a random salt. A secret in PostgreSQL's form,
/// `SCRAM-SHA-256$iterations:salt$stored key:server key`, is taken as it is: psql's `\password` sends one.
///
/// # Errors
/// 22023 for an empty password, a secret of another form, and one beyond [`ITERATIONS_ALLOWED`] or
/// [`SALT_BYTES_ALLOWED`].
pub fn secret_of(password: &str) -> Result<ScramSecret> {
    if password.is_empty() {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the password is empty"));
    }
    if let Some(secret) = password.strip_prefix("SCRAM-SHA-256$") {
        let secret = stored_form(secret).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the password starts like a SCRAM secret but is none")
                .with_hint("Give the password itself, or SCRAM-SHA-256$iterations:salt$storedkey:serverkey.")
        })?;
        return check(&secret).map(|()| secret);
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
    Some(secret)
}

/// Refuses a secret in PostgreSQL's form that no server would make.
fn check(secret: &ScramSecret) -> Result<()> {
    fn within<T: PartialOrd + Display>(what: &str, found: &T, allowed: RangeInclusive<T>) -> Result<()> {
        if allowed.contains(found) {
            return Ok(());
        }
        let (least, most) = allowed.into_inner();
        let bounds = if least == most { format!("{most}") } else { format!("{least} to {most}") };
        let message = format!("the SCRAM secret has {found} {what}, not {bounds}");
        Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
    }
    within("iterations", &secret.iterations, ITERATIONS_ALLOWED)?;
    within("bytes of salt", &secret.salt.len(), SALT_BYTES_ALLOWED)?;
    within("bytes of stored key", &secret.stored_key.len(), KEY_BYTES..=KEY_BYTES)?;
    within("bytes of server key", &secret.server_key.len(), KEY_BYTES..=KEY_BYTES)
}

/// The store's [`MockNonce`], made if it has none.
///
/// A store that cannot be written serves all the same: its nonce is then that of this process.
pub async fn mock_nonce(catalog: &Catalog) -> MockNonce {
    if let Some(nonce) = catalog.snapshot().mock_nonce {
        return nonce;
    }
    let made = MockNonce(rand::random());
    match catalog.commit(|_| Ok(Edit::SetMockNonce(made))).await {
        Ok(after) => after.mock_nonce.unwrap_or(made),
        Err(error) => {
            tracing::warn!(%error, "the salts of roles that do not exist change with the next start");
            made
        }
    }
}

/// The secret against which a role is checked: its own, or one that no password has.
///
/// The salt of the latter depends on the name and on a secret of the store, so that asking twice, or after a restart,
/// gives the same salt, as it does for a role that exists. Nothing that a client can learn or change is part of it.
pub fn secret_for(snapshot: &Snapshot, nonce: &MockNonce, role: &str, now_micros: i64) -> ScramSecret {
    let is_valid = |role: &&Arc<Role>| role.valid_until_micros.is_none_or(|until| now_micros < until);
    if let Some(secret) = snapshot.role(role).filter(is_valid).and_then(|role| role.secret.clone()) {
        return secret;
    }
    let nonce: String = nonce.0.iter().map(|byte| format!("{byte:02x}")).collect();
    // One round is an HMAC.
    let mut salt = gen_salted_password(&nonce, role.as_bytes(), 1);
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
    use base64::{Engine, engine::general_purpose::STANDARD};
    use keyspan_storage::{clock::ManualClock, memory::MemoryStore};
    use std::sync::Arc;

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
        let (snapshot, nonce) = (Snapshot::default(), MockNonce([7; 32]));
        let (one, again) = (secret_for(&snapshot, &nonce, "ana", 0), secret_for(&snapshot, &nonce, "ana", 0));
        assert_eq!((one.salt.len(), &one.salt, one.iterations), (SALT_BYTES, &again.salt, ITERATIONS));
        assert_ne!(one.salt, secret_for(&snapshot, &nonce, "bob", 0).salt);
        assert_ne!(one.salt, secret_for(&snapshot, &MockNonce([8; 32]), "ana", 0).salt);
        assert!(!is_password_of("", &one));
    }

    #[tokio::test]
    async fn a_store_has_one_nonce() {
        let store = || Arc::new(MemoryStore::new(Box::new(ManualClock::new(1_000_000))));
        let (one, other) = (store(), store());
        let catalog = Catalog::open(one.clone()).await.unwrap();
        assert_eq!(catalog.snapshot().mock_nonce, None);
        let made = mock_nonce(&catalog).await;
        assert_eq!((catalog.snapshot().mock_nonce, mock_nonce(&catalog).await), (Some(made), made));
        catalog.commit(|_| Ok(Edit::SetMockNonce(MockNonce([7; 32])))).await.unwrap();
        assert_eq!(mock_nonce(&Catalog::open(one).await.unwrap()).await, made);
        assert_ne!(mock_nonce(&Catalog::open(other).await.unwrap()).await, made);
        assert_eq!(format!("{made:?}"), "MockNonce(…)");
    }

    #[test]
    fn a_wrong_proof_is_a_wrong_password_for_roles_known_and_unknown() {
        let mock = secret_for(&Snapshot::default(), &MockNonce([7; 32]), "nobody", 0);
        for secret in [secret_of(RFC).unwrap(), mock] {
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
    fn a_secret_is_within_bounds() {
        let secret = |iterations: u64, salt: usize, stored_key: usize, server_key: usize| {
            let bytes = |count: usize| STANDARD.encode(vec![7; count]);
            let (salt, stored_key, server_key) = (bytes(salt), bytes(stored_key), bytes(server_key));
            match secret_of(&format!("SCRAM-SHA-256${iterations}:{salt}${stored_key}:{server_key}")) {
                Ok(_) => "taken".to_owned(),
                Err(error) => format!("{} {}", error.state.0, error.message),
            }
        };
        let refused = |what: &str| format!("22023 the SCRAM secret has {what}");
        assert_eq!((secret(4_096, 8, 32, 32).as_str(), secret(1_000_000, 64, 32, 32).as_str()), ("taken", "taken"));
        assert_eq!(secret(4_095, 16, 32, 32), refused("4095 iterations, not 4096 to 1000000"));
        assert_eq!(secret(1_000_001, 16, 32, 32), refused("1000001 iterations, not 4096 to 1000000"));
        assert_eq!(secret(4_096, 7, 32, 32), refused("7 bytes of salt, not 8 to 64"));
        assert_eq!(secret(4_096, 65, 32, 32), refused("65 bytes of salt, not 8 to 64"));
        assert_eq!(secret(4_096, 16, 31, 32), refused("31 bytes of stored key, not 32"));
        assert_eq!(secret(4_096, 16, 32, 33), refused("33 bytes of server key, not 32"));
        assert_eq!(secret(1 << 32, 16, 32, 32), "22023 the password starts like a SCRAM secret but is none");
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
