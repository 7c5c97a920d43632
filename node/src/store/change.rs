//! One change of the rows of a store, how it is applied, and how much more they take then.
//!
//! A message is a header and a content behind it in one row. Who changes a header has the content
//! written again, which is read from the row; a content that is not whole is not spread that way.
//!
//! What this file does not do: it begins and ends no transaction.

use bytes::Bytes;
use gaggle_core::ledger::{MessageKey, MessageRecord, Write};
use gaggle_wire::Label;
use redb::{ReadableTable, ReadableTableMetadata as _, Table};

use super::StoreError;
use super::used::Grown;

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

/// The rows of a store in a transaction, and how much more they take since it began.
pub(super) struct Rows<'t> {
    table: Table<'t, &'static [u8], &'static [u8]>,
    grown: Grown,
}

impl<'t> Rows<'t> {
    /// The rows of this table.
    pub(super) fn of(table: Table<'t, &'static [u8], &'static [u8]>) -> Self {
        Self { table, grown: Grown::default() }
    }

    /// How much more they take.
    pub(super) fn grown(&self) -> Grown {
        self.grown
    }

    /// Applies a change.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub(super) fn apply(&mut self, change: &Change) -> Result<(), StoreError> {
        match &change.write {
            Write::Put { key, value } => self.put(key, value)?,
            Write::Delete { key } => self.delete(key)?,
            Write::DeleteRange { from, to } if from < to => self.delete_range(from, to)?,
            Write::DeleteRange { .. } => {}
            Write::PutMessage { key, header, label } => {
                let content = match &change.content {
                    Some(content) => content.clone(),
                    None => {
                        let (content, _) = self
                            .present_content(key, |found| found == *label)?
                            .ok_or_else(|| StoreError::NoContent(Box::new(*key)))?;
                        content
                    }
                };
                self.put_message(key, header, &content)?;
            }
            Write::PutHeader { key, header } => {
                if let Some((content, length)) = self.present_content(key, |_| true)? {
                    self.put_message(key, header, &content)?;
                    let key = key.encode().len();
                    self.grown.remove(key, length);
                    self.grown.add(key, header.len() + content.len());
                }
            }
        }
        Ok(())
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let before = self.table.insert(key, value).map_err(redb::Error::from)?;
        if let Some(before) = before {
            self.grown.remove(key.len(), before.value().len());
        }
        self.grown.add(key.len(), value.len());
        Ok(())
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        if let Some(before) = self.table.remove(key).map_err(redb::Error::from)? {
            self.grown.remove(key.len(), before.value().len());
        }
        Ok(())
    }

    fn delete_range(&mut self, from: &[u8], to: &[u8]) -> Result<(), StoreError> {
        let grown = &mut self.grown;
        let goes = |key: &[u8], value: &[u8]| {
            grown.remove(key.len(), value.len());
            false
        };
        self.table.retain_in(from..to, goes).map_err(redb::Error::from)?;
        Ok(())
    }

    fn put_message(
        &mut self,
        key: &MessageKey,
        header: &[u8],
        content: &[u8],
    ) -> Result<(), StoreError> {
        let (row, length) = (key.encode(), header.len() + content.len());
        let rows = self.table.len().map_err(redb::Error::from)?;
        let mut place = self.table.insert_reserve(&row[..], length).map_err(redb::Error::from)?;
        let (head, tail) = place.as_mut().split_at_mut(header.len());
        head.copy_from_slice(header);
        tail.copy_from_slice(content);
        drop(place);
        // A message is put once; one that is put again has the length that it had.
        if self.table.len().map_err(redb::Error::from)? > rows {
            self.grown.add(row.len(), length);
        }
        Ok(())
    }

    /// The content of a stored message that is whole and the right one, and the length of all
    /// that is stored of it.
    fn present_content(
        &self,
        key: &MessageKey,
        is_right: impl FnOnce(Label) -> bool,
    ) -> Result<Option<(Bytes, usize)>, StoreError> {
        let Some(value) = self.table.get(&key.encode()[..]).map_err(redb::Error::from)? else {
            return Ok(None);
        };
        let label = MessageRecord::decode(key, value.value()).map(|record| record.label);
        let content = label
            .ok()
            .filter(|label| is_right(*label))
            .and_then(|label| checked_content(key, &label, value.value()));
        Ok(content.map(|content| (Bytes::copy_from_slice(content), value.value().len())))
    }
}
