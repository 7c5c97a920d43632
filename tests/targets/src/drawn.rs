//! Values of any type that can be deserialized, drawn from bytes: a deserializer that makes up
//! what it reads.
//!
//! Bytes decoded as they are seldom name a queue that exists. Here a name of a type or a field
//! leads to a likely value (a known queue, a small number, a time near now), now and then to an
//! odd one, so that what is drawn gets far. A variant or field that the language gains is drawn
//! without a line here.
//!
//! What this file does not do: it does not know what is said; who draws adds what it learned.

use std::collections::BTreeMap;

use arbitrary::Unstructured;
use serde::de::{DeserializeOwned, DeserializeSeed, EnumAccess, SeqAccess, VariantAccess, Visitor};
use serde::{Deserializer, Serialize};

/// Values that were met, by the name of their type: drawn again more often than made up.
#[derive(Debug, Default)]
pub struct Met {
    values: BTreeMap<&'static str, Vec<Vec<u8>>>,
    /// What is taken for the present time.
    pub time: u64,
}

impl Met {
    /// Remembers a value of the type of this name; the oldest is forgotten for it.
    ///
    /// # Panics
    /// When the value cannot be encoded.
    pub fn add(&mut self, name: &'static str, value: &impl Serialize) {
        let value = postcard::to_stdvec(value).expect("it is plain data");
        let values = self.values.entry(name).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
        if values.len() > VALUES_MAX {
            values.remove(0);
        }
    }

    /// Draws a value; `None` when what was drawn is none.
    pub fn draw<T: DeserializeOwned>(&self, u: &mut Unstructured<'_>) -> Option<T> {
        T::deserialize(Draw { u, met: self, name: "", depth: 0 }).ok()
    }

    fn any(&self, u: &mut Unstructured<'_>, name: &str) -> Option<&[u8]> {
        let values = self.values.get(name)?;
        if rarely(u) {
            return None;
        }
        u.choose(values).ok().map(Vec::as_slice)
    }
}

/// Draws one value.
struct Draw<'u, 'b, 'm> {
    u: &'u mut Unstructured<'b>,
    met: &'m Met,
    /// Of the type or field that is being drawn.
    name: &'static str,
    depth: u8,
}

/// postcard's own, so that values which were met can be read by it.
type Error = postcard::Error;

impl<'b, 'm> Draw<'_, 'b, 'm> {
    fn inner(&mut self, name: &'static str) -> Draw<'_, 'b, 'm> {
        Draw { u: self.u, met: self.met, name, depth: self.depth + 1 }
    }

    fn number(&mut self) -> u64 {
        if rarely(self.u) {
            return match self.u.int_in_range(0..=3_u8) {
                Ok(0) => 0,
                Ok(1) => u64::MAX,
                Ok(2) => u64::from(u32::MAX) + 1,
                _ => self.u.arbitrary().unwrap_or(0),
            };
        }
        let byte = u64::from(self.u.arbitrary::<u8>().unwrap_or(0));
        match self.name {
            "NodeId" => byte % 5,
            "ProcessId" => 70 + byte % 3,
            "time" | "wall" | "oldest" | "more" => self.met.time.wrapping_add(byte << 20),
            name if name.ends_with("_ms") => [0, 1, 50, 1000, 30_000][byte as usize % 5],
            "body_length" | "head_length" | "crc" => byte,
            "partition" | "partitions" => byte % 3,
            _ => byte % 12,
        }
    }

    fn length(&mut self) -> usize {
        let max = if self.depth > 6 { 1 } else { 4 };
        if rarely(self.u) {
            return if self.depth < 2 { 300 } else { 20 };
        }
        usize::from(self.u.int_in_range(0..=max).unwrap_or(0_u8))
    }

    fn text(&mut self) -> String {
        const TEXTS: [&str; 6] = ["orders", "jobs", "o", "x.dead", "", "not a name"];
        (*self.u.choose(&TEXTS).unwrap_or(&"")).to_owned()
    }
}

fn rarely(u: &mut Unstructured<'_>) -> bool {
    u.ratio(1, 12_u8).unwrap_or(false)
}

macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty),*) => {$(
        fn $method<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.number() as $type)
        }
    )*};
}

impl<'de> Deserializer<'de> for Draw<'_, '_, 'de> {
    type Error = Error;

    numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_u8 visit_u8 u8, deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::WontImplement)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.u.arbitrary().unwrap_or(false))
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_string(self.text())
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_byte_buf(vec![7; self.length()])
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let name = self.name;
        if self.u.arbitrary().unwrap_or(false) {
            visitor.visit_some(self.inner(name))
        } else {
            visitor.visit_none()
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        mut self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(met) = self.met.any(self.u, name) {
            return postcard::Deserializer::from_bytes(met)
                .deserialize_newtype_struct(name, visitor);
        }
        visitor.visit_newtype_struct(self.inner(name))
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let left = self.length();
        visitor.visit_seq(Parts { draw: self, names: &[], left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { draw: self, names: &[], left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        left: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_tuple(left, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::WontImplement)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Some(met) = self.met.any(self.u, name) {
            return postcard::Deserializer::from_bytes(met)
                .deserialize_struct(name, fields, visitor);
        }
        visitor.visit_seq(Parts { draw: self, names: fields, left: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let last = u32::try_from(variants.len()).unwrap_or(1).saturating_sub(1);
        let variant = self.u.int_in_range(0..=last).unwrap_or(0);
        visitor.visit_enum(Variant { draw: self, variant })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::WontImplement)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    serde::forward_to_deserialize_any! { i128 f32 f64 char }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The parts of a sequence, tuple or struct.
struct Parts<'u, 'b, 'm> {
    draw: Draw<'u, 'b, 'm>,
    /// Of the fields, if they have any.
    names: &'static [&'static str],
    left: usize,
}

impl<'de> SeqAccess<'de> for Parts<'_, '_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        let named = self.names.len().checked_sub(self.left).and_then(|at| self.names.get(at));
        let name = named.copied().unwrap_or(self.draw.name);
        self.left -= 1;
        seed.deserialize(self.draw.inner(name)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// A variant of an enum.
struct Variant<'u, 'b, 'm> {
    draw: Draw<'u, 'b, 'm>,
    variant: u32,
}

impl<'de> EnumAccess<'de> for Variant<'_, '_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let index = serde::de::value::U32Deserializer::<Error>::new(self.variant);
        Ok((seed.deserialize(index)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, '_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.draw)
    }

    fn tuple_variant<V: Visitor<'de>>(self, left: usize, visitor: V) -> Result<V::Value, Error> {
        self.draw.deserialize_tuple(left, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(Parts { draw: self.draw, names: fields, left: fields.len() })
    }
}

/// More than a run of some hundred steps makes of most.
const VALUES_MAX: usize = 24;
