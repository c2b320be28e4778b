//! Protobuf: descriptors that operators and tenants keep, and the messages that columns hold by them. Pure.
//!
//! ```text
//! FileDescriptorSet ─► ProtoDescriptor, an object of the catalog ─► ProtoMessage, part of a column's definition
//!                                                                      │
//!                             bytes of a cell ◄── encode ── jsonb ◄── decode ── bytes of a cell
//! ```
//!
//! A [`ProtoMessage`] holds the files that define its message, so that a table is whole in itself: it can be read,
//! copied and restored without the descriptor. Replacing a descriptor replaces them in the tables that use it.
//!
//! jsonb is the message in protobuf's own mapping to JSON (<https://protobuf.dev/programming-guides/json>). What the
//! descriptor does not know is not in it; [`ProtoMessage::keep_unknown`] carries it over when a row is updated.

mod compatible;
mod json;
pub(crate) mod objects;
#[cfg(test)]
mod tests;

use crate::{Error, ErrorKind, Result, SqlType, Value, table::check_name};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use bytes::Bytes;
use json::JsonInput;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, FileDescriptor, MessageDescriptor, SerializeOptions,
    prost::{
        Message as _,
        encoding::{self, DecodeContext},
    },
    prost_types::{DescriptorProto, FileDescriptorSet},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, OnceLock},
};

/// Bytes of a descriptor, at most: it stays in memory, parsed.
pub const DESCRIPTOR_BYTES_MAX: usize = 1 << 20;
/// Messages and enums of a descriptor, at most.
pub const DESCRIPTOR_TYPES_MAX: usize = 10_000;
/// Depth of messages that are defined in messages, at most.
pub const DESCRIPTOR_DEPTH_MAX: usize = 32;
/// Descriptors of the operator, and of each tenant, at most.
pub const DESCRIPTORS_MAX: usize = 100;
/// Bytes of a message that is written or read as jsonb, at most: each of them may become a value of its own.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Depth of JSON from which on a message is read back before it is written: the format's readers bound the depth, too.
const JSON_DEPTH_UNCHECKED: usize = 16;

/// A descriptor: a set of files that define messages.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredDescriptor", into = "StoredDescriptor")]
pub struct ProtoDescriptor {
    /// The OID, never reused.
    pub id: u32,
    /// The name.
    pub name: String,
    files: Bytes,
    pool: OnceLock<Option<DescriptorPool>>,
}

/// The form of a descriptor in the catalog.
#[derive(Serialize, Deserialize)]
struct StoredDescriptor {
    id: u32,
    name: String,
    /// A FileDescriptorSet in base64.
    files: String,
}

/// The message of a column: its name, and the files that define it.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "StoredMessage", into = "StoredMessage")]
pub struct ProtoMessage(Arc<Inner>);

struct Inner {
    descriptor: String,
    shared: bool,
    name: String,
    files: Bytes,
    /// Parsed when it is first used; `None` for a damaged catalog.
    parsed: OnceLock<Option<MessageDescriptor>>,
    /// The numbers of the fields that are decoded, sorted; `None` for all.
    only: Option<Vec<u32>>,
}

/// The form of a message in the catalog.
#[derive(Serialize, Deserialize)]
struct StoredMessage {
    descriptor: String,
    /// Whether the descriptor is the operator's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    shared: bool,
    message: String,
    /// A FileDescriptorSet in base64.
    files: String,
}

impl ProtoDescriptor {
    /// Makes a descriptor of the bytes of a FileDescriptorSet.
    ///
    /// # Errors
    /// [`TooMuch`](ErrorKind::TooMuch) beyond the bounds; [`InvalidDescriptor`](ErrorKind::InvalidDescriptor) for bytes
    /// that are no such set, or that lack a file which another imports.
    pub fn define(id: u32, name: &str, files: Bytes) -> Result<Self> {
        check_name("descriptor", name)?;
        if name.contains(':') {
            return Err(Error::new(ErrorKind::Invalid, format!("descriptor name \"{name}\" must not have a colon")));
        }
        let too_much = |what: String| Error::new(ErrorKind::TooMuch, format!("a protobuf descriptor has {what}"));
        if files.len() > DESCRIPTOR_BYTES_MAX {
            return Err(too_much(format!("more than {DESCRIPTOR_BYTES_MAX} bytes")).with_hint(
                "protoc writes no source information unless --include_source_info asks for it; leave out what no column uses.",
            ));
        }
        let not_one = |why: String| {
            Error::new(ErrorKind::InvalidDescriptor, "invalid protobuf descriptor")
                .with_detail(why)
                .with_hint("protoc --include_imports --descriptor_set_out=FILE writes a FileDescriptorSet.")
        };
        let set = FileDescriptorSet::decode(files.clone()).map_err(|error| not_one(format!("{error}.")))?;
        let (mut types, mut depth) = (0, 0);
        for file in &set.file {
            types += file.enum_type.len();
            file.message_type.iter().for_each(|message| count(message, 1, &mut types, &mut depth));
        }
        if types > DESCRIPTOR_TYPES_MAX {
            return Err(too_much(format!("more than {DESCRIPTOR_TYPES_MAX} messages and enums")));
        }
        if depth > DESCRIPTOR_DEPTH_MAX {
            return Err(too_much(format!("messages that are nested more than {DESCRIPTOR_DEPTH_MAX} deep")));
        }
        let pool = DescriptorPool::decode(files.clone()).map_err(|error| not_one(format!("{error}.")))?;
        if pool.all_messages().next().is_none() {
            return Err(not_one("It defines no message.".to_owned()));
        }
        Ok(Self { id, name: name.to_owned(), files, pool: OnceLock::from(Some(pool)) })
    }

    /// The same under another OID: that of a copy.
    #[must_use]
    pub fn with_id(&self, id: u32) -> Self {
        Self { id, ..self.clone() }
    }

    /// Bytes of its files.
    pub fn bytes(&self) -> usize {
        self.files.len()
    }

    /// The full names of its messages.
    pub fn messages(&self) -> Vec<String> {
        let messages = self.pool().into_iter().flat_map(|pool| pool.all_messages());
        messages.filter(|message| !message.is_map_entry()).map(|message| message.full_name().to_owned()).collect()
    }

    /// The message with a full name; `shared` for a descriptor of the operator.
    pub fn message(&self, name: &str, shared: bool) -> Option<ProtoMessage> {
        let message = self.pool()?.get_message_by_name(name).filter(|message| !message.is_map_entry())?;
        let mut files = FileDescriptorSet::default();
        add_files(&message.parent_file(), &mut BTreeSet::new(), &mut files);
        let files = files.encode_to_vec().into();
        // Parsed anew, so that it holds no more than these files.
        let parsed = OnceLock::new();
        Some(ProtoMessage(Arc::new(Inner {
            descriptor: self.name.clone(),
            shared,
            name: name.to_owned(),
            files,
            parsed,
            only: None,
        })))
    }

    /// The same to read and write with: it is part of no table, and has no files of its own.
    pub fn reader(&self, name: &str, shared: bool) -> Option<ProtoMessage> {
        let message = self.pool()?.get_message_by_name(name).filter(|message| !message.is_map_entry())?;
        let parsed = OnceLock::from(Some(message));
        let (descriptor, name, files) = (self.name.clone(), name.to_owned(), Bytes::new());
        Some(ProtoMessage(Arc::new(Inner { descriptor, shared, name, files, parsed, only: None })))
    }

    fn pool(&self) -> Option<&DescriptorPool> {
        self.pool.get_or_init(|| DescriptorPool::decode(self.files.clone()).ok()).as_ref()
    }
}

/// Adds a file behind those that it imports.
fn add_files(file: &FileDescriptor, added: &mut BTreeSet<String>, files: &mut FileDescriptorSet) {
    // A stack of our own: an import may be as deep as there are files.
    let mut ahead = vec![(file.clone(), false)];
    while let Some((file, is_ready)) = ahead.pop() {
        if is_ready {
            let mut proto = file.file_descriptor_proto().clone();
            proto.source_code_info = None;
            files.file.push(proto);
        } else if added.insert(file.name().to_owned()) {
            let imports: Vec<FileDescriptor> = file.dependencies().collect();
            ahead.push((file, true));
            ahead.extend(imports.into_iter().map(|import| (import, false)));
        }
    }
}

/// Counts messages and enums, and how deep they are nested. The decoder of the set has bounded its recursion.
fn count(message: &DescriptorProto, depth: usize, types: &mut usize, deepest: &mut usize) {
    *types += 1 + message.enum_type.len();
    *deepest = (*deepest).max(depth);
    message.nested_type.iter().for_each(|nested| count(nested, depth + 1, types, deepest));
}

impl ProtoMessage {
    /// The name of the descriptor that it is of.
    pub fn descriptor(&self) -> &str {
        &self.0.descriptor
    }

    /// Whether the descriptor is the operator's.
    pub fn is_shared(&self) -> bool {
        self.0.shared
    }

    /// The full name of the message.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Bytes of the files that define it.
    pub fn bytes(&self) -> usize {
        self.0.files.len()
    }

    /// As `PROTOBUF` names it in a column's definition.
    pub fn sql_name(&self) -> String {
        format!("{}:{}", self.descriptor(), self.name())
    }

    /// A message's bytes as jsonb; `None` for bytes that are no such message.
    pub fn decode(&self, bytes: &[u8]) -> Option<Value> {
        let message = self.read(bytes)?;
        let mut json = Vec::with_capacity(bytes.len() * 2);
        let options = SerializeOptions::new();
        message.serialize_with_options(&mut serde_json::Serializer::new(&mut json), &options).ok()?;
        Value::parse(&String::from_utf8(json).ok()?, SqlType::Jsonb).ok()
    }

    /// The same message to be read only: what it decodes to may lack all members but those of the given names.
    /// `None` where jsonb's members are not the message's fields.
    pub fn only<'a>(&self, members: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let message = self.parsed().ok()?;
        // Those of protobuf itself have a form in JSON of their own, and extensions have names in brackets.
        if message.full_name().starts_with("google.protobuf.") {
            return None;
        }
        let mut numbers = BTreeSet::new();
        for member in members {
            if member.starts_with('[') {
                return None;
            }
            let Some(field) = message.fields().find(|field| field.json_name() == member) else { continue };
            match field.containing_oneof() {
                // The last of them in the bytes counts.
                Some(oneof) => numbers.extend(oneof.fields().map(|field| field.number())),
                None => _ = numbers.insert(field.number()),
            }
        }
        let Inner { descriptor, shared, name, files, .. } = &*self.0;
        Some(Self(Arc::new(Inner {
            descriptor: descriptor.clone(),
            shared: *shared,
            name: name.clone(),
            files: files.clone(),
            parsed: OnceLock::from(Some(message.clone())),
            only: Some(numbers.into_iter().collect()),
        })))
    }

    /// The bytes of a message that is given as JSON.
    ///
    /// # Errors
    /// [`BadValue`](ErrorKind::BadValue) for JSON that is no such message; [`TooMuch`](ErrorKind::TooMuch) above
    /// [`MESSAGE_BYTES_MAX`].
    pub fn encode(&self, json: &str) -> Result<Bytes> {
        let parsed: serde_json::Value = serde_json::from_str(json).map_err(|error| self.no_message(error))?;
        let options = DeserializeOptions::new();
        let read = DynamicMessage::deserialize_with_options(self.parsed()?.clone(), JsonInput(&parsed), &options);
        let message = read.map_err(|error| self.no_message(error))?;
        let bytes = Bytes::from(message.encode_to_vec());
        self.check_size(bytes.len())?;
        if json::depth(json) > JSON_DEPTH_UNCHECKED && self.read(&bytes).is_none() {
            return Err(self.no_message("it is nested too deep"));
        }
        Ok(bytes)
    }

    /// Checks bytes that are to be a message.
    ///
    /// # Errors
    /// [`BadValue`](ErrorKind::BadValue) for bytes that are none; [`TooMuch`](ErrorKind::TooMuch) above
    /// [`MESSAGE_BYTES_MAX`].
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        self.check_size(bytes.len())?;
        match self.decode(bytes) {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::BadValue, format!("invalid bytes for protobuf message {}", self.name()))),
        }
    }

    /// New bytes of a message with what the descriptor does not know of the old ones: of the message itself, and of
    /// messages in it that are in both, but for those in lists and maps.
    ///
    /// # Errors
    /// [`TooMuch`](ErrorKind::TooMuch) above [`MESSAGE_BYTES_MAX`].
    pub fn keep_unknown(&self, new: Bytes, old: &[u8]) -> Result<Bytes> {
        // Who has no unknown fields, as most, has none to keep; and bytes that are no message have no fields.
        let (Some(old), Some(mut message)) = (self.read(old), self.read(&new)) else { return Ok(new) };
        if !graft(&mut message, &old) {
            return Ok(new);
        }
        let bytes = Bytes::from(message.encode_to_vec());
        self.check_size(bytes.len())?;
        Ok(bytes)
    }

    /// The message in another descriptor, which takes the place of this one.
    ///
    /// # Errors
    /// [`InUse`](ErrorKind::InUse) if it would read what is stored in another way; says how.
    pub fn replaced(&self, by: &ProtoDescriptor) -> Result<Self> {
        let differs = |why: String| {
            Error::new(ErrorKind::InUse, format!("cannot replace descriptor \"{}\" because a column uses it", by.name))
                .with_detail(why)
                .with_hint(
                    "Fields and enum values may be added; create a descriptor of another name for other changes.",
                )
        };
        let Some(after) = by.message(self.name(), self.0.shared) else {
            return Err(differs(format!("Message {} is in use.", self.name())));
        };
        match compatible::difference(self.parsed()?, after.parsed()?) {
            Some(why) => Err(differs(why)),
            None => Ok(after),
        }
    }

    fn parsed(&self) -> Result<&MessageDescriptor> {
        let parsed = self.0.parsed.get_or_init(|| {
            let pool = DescriptorPool::decode(self.0.files.clone()).ok()?;
            pool.get_message_by_name(&self.0.name)
        });
        parsed.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, format!("the definition of protobuf message {} cannot be read", self.name()))
        })
    }

    fn read(&self, bytes: &[u8]) -> Option<DynamicMessage> {
        if bytes.len() > MESSAGE_BYTES_MAX {
            return None;
        }
        let message = self.parsed().ok()?.clone();
        match &self.0.only {
            None => DynamicMessage::decode(message, bytes).ok(),
            Some(numbers) => DynamicMessage::decode(message, fields(bytes, numbers)?.as_slice()).ok(),
        }
    }

    fn check_size(&self, bytes: usize) -> Result<()> {
        if bytes <= MESSAGE_BYTES_MAX {
            return Ok(());
        }
        let message = format!("a protobuf message of {bytes} bytes is over the limit of {MESSAGE_BYTES_MAX}");
        Err(Error::new(ErrorKind::TooMuch, message))
    }

    fn no_message(&self, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::BadValue, format!("invalid JSON for protobuf message {}", self.name()))
            .with_detail(format!("{why}."))
    }
}

/// The bytes of a message's fields of these numbers, which are sorted; `None` for bytes that are no message.
fn fields(bytes: &[u8], numbers: &[u32]) -> Option<Vec<u8>> {
    let (mut rest, mut found) = (bytes, Vec::new());
    while !rest.is_empty() {
        let field = rest;
        let (number, wire_type) = encoding::decode_key(&mut rest).ok()?;
        encoding::skip_field(wire_type, number, &mut rest, DecodeContext::default()).ok()?;
        if numbers.binary_search(&number).is_ok() {
            found.extend_from_slice(&field[..field.len() - rest.len()]);
        }
    }
    Some(found)
}

/// Gives a message the unknown fields of another, which was in its place; whether there are any.
fn graft(new: &mut DynamicMessage, old: &DynamicMessage) -> bool {
    let mut unknown = Vec::new();
    old.unknown_fields().for_each(|field| field.encode(&mut unknown));
    let mut any = !unknown.is_empty();
    if any && new.merge(unknown.as_slice()).is_err() {
        return false;
    }
    for (field, value) in new.fields_mut() {
        if let Some(new) = value.as_message_mut()
            && old.has_field(&field)
            && let Some(old) = old.get_field(&field).as_message()
        {
            any |= graft(new, old);
        }
    }
    any
}

impl PartialEq for ProtoDescriptor {
    fn eq(&self, other: &Self) -> bool {
        (self.id, &self.name, &self.files) == (other.id, &other.name, &other.files)
    }
}

impl Eq for ProtoDescriptor {}

impl fmt::Debug for ProtoDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProtoDescriptor").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for ProtoMessage {
    fn eq(&self, other: &Self) -> bool {
        let of = |inner: &Inner| (inner.descriptor.clone(), inner.shared, inner.name.clone());
        Arc::ptr_eq(&self.0, &other.0) || (self.0.files == other.0.files && of(&self.0) == of(&other.0))
    }
}

impl Eq for ProtoMessage {}

impl fmt::Debug for ProtoMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ProtoMessage({})", self.sql_name())
    }
}

fn from_base64(text: &str) -> Result<Bytes, String> {
    BASE64.decode(text).map(Bytes::from).map_err(|error| error.to_string())
}

impl TryFrom<StoredDescriptor> for ProtoDescriptor {
    type Error = String;

    fn try_from(stored: StoredDescriptor) -> Result<Self, String> {
        let StoredDescriptor { id, name, files } = stored;
        Ok(Self { id, name, files: from_base64(&files)?, pool: OnceLock::new() })
    }
}

impl From<ProtoDescriptor> for StoredDescriptor {
    fn from(descriptor: ProtoDescriptor) -> Self {
        Self { id: descriptor.id, name: descriptor.name, files: BASE64.encode(&descriptor.files) }
    }
}

impl TryFrom<StoredMessage> for ProtoMessage {
    type Error = String;

    fn try_from(stored: StoredMessage) -> Result<Self, String> {
        let StoredMessage { descriptor, shared, message: name, files } = stored;
        let (files, parsed) = (from_base64(&files)?, OnceLock::new());
        Ok(Self(Arc::new(Inner { descriptor, shared, name, files, parsed, only: None })))
    }
}

impl From<ProtoMessage> for StoredMessage {
    fn from(message: ProtoMessage) -> Self {
        let Inner { descriptor, shared, name, files, .. } = message.0.as_ref();
        let files = BASE64.encode(files);
        Self { descriptor: descriptor.clone(), shared: *shared, message: name.clone(), files }
    }
}
