//! One change of the rows of a store, and how it is applied.
//!
//! A message is a header and a content behind it in one row. Who changes a header has the content
//! written again, which is read from the row; a content that is not whole is not spread that way.
//!
//! What this file does not do: it begins and ends no transaction.

use bytes::Bytes;
use gaggle_core::ledger::{MessageKey, MessageRecord, Write};
use gaggle_wire::Label;
use redb::{ReadableTable, Table};

use super::StoreError;

/// One change with the content that it takes.
#[derive(Clone, Debug)]
pub struct Change {
    /// What the core asks for.
    pub write: Write,
    /// Of a `PutMessage`. When it is missing, the content that is in the store already stays.
    pub content: Option<Bytes>,
}

/// Whether the header of a stored message can be read, and its content is the right one.
pub(super) fn is_whole(key: &MessageKey, value: &[u8]) -> bool {
    let label = MessageRecord::decode(key, value).map(|record| record.label);
    label.is_ok_and(|label| checked_content(key, &label, value).is_some())
}

/// The content behind the header of a stored message, if both are whole and it is this message.
pub(super) fn checked_content<'v>(
    key: &MessageKey,
    label: &Label,
    value: &'v [u8],
) -> Option<&'v [u8]> {
    MessageRecord::decode(key, value).ok()?;
    let content = value.get(MessageRecord::header_length(value)..)?;
    label.matches(content).then_some(content)
}

/// Applies a change to the rows.
///
/// # Errors
/// See [`StoreError`].
pub(super) fn apply(
    table: &mut Table<'_, &[u8], &[u8]>,
    change: &Change,
) -> Result<(), StoreError> {
    match &change.write {
        Write::Put { key, value } => {
            table.insert(&key[..], &value[..]).map_err(redb::Error::from)?;
        }
        Write::Delete { key } => {
            table.remove(&key[..]).map_err(redb::Error::from)?;
        }
        Write::DeleteRange { from, to } if from < to => {
            table.retain_in(&from[..]..&to[..], |_, _| false).map_err(redb::Error::from)?;
        }
        Write::DeleteRange { .. } => {}
        Write::PutMessage { key, header, label } => {
            let content = match &change.content {
                Some(content) => content.clone(),
                None => present_content(table, key, |found| found == *label)?
                    .ok_or_else(|| StoreError::NoContent(Box::new(*key)))?,
            };
            put_message(table, key, header, &content)?;
        }
        Write::PutHeader { key, header } => {
            if let Some(content) = present_content(table, key, |_| true)? {
                put_message(table, key, header, &content)?;
            }
        }
    }
    Ok(())
}

fn put_message(
    table: &mut Table<'_, &[u8], &[u8]>,
    key: &MessageKey,
    header: &[u8],
    content: &[u8],
) -> Result<(), StoreError> {
    let (row, length) = (key.encode(), header.len() + content.len());
    let mut place = table.insert_reserve(&row[..], length).map_err(redb::Error::from)?;
    let (head, tail) = place.as_mut().split_at_mut(header.len());
    head.copy_from_slice(header);
    tail.copy_from_slice(content);
    Ok(())
}

/// The content of a stored message that is whole and the right one.
fn present_content(
    table: &Table<'_, &[u8], &[u8]>,
    key: &MessageKey,
    is_right: impl FnOnce(Label) -> bool,
) -> Result<Option<Bytes>, StoreError> {
    let Some(value) = table.get(&key.encode()[..]).map_err(redb::Error::from)? else {
        return Ok(None);
    };
    let label = MessageRecord::decode(key, value.value()).map(|record| record.label);
    Ok(label
        .ok()
        .filter(|label| is_right(*label))
        .and_then(|label| checked_content(key, &label, value.value()).map(Bytes::copy_from_slice)))
}
