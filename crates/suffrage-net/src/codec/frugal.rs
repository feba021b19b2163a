//! Postcard's decoder, with bounds on depth and work.
//!
//! Postcard allocates no more than there are bytes left, but a type that contains itself can be nested as deep
//! as a datagram is long, which overflows the stack; and elements that take no bytes can be claimed without
//! end. This stands between postcard and the type, counts both, and gives up.

use std::cell::Cell;
use std::fmt;

use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// How deep a message may be nested.
pub const DEPTH: u32 = 64;
/// How many values a message may consist of, per byte. No more than [`DEPTH`] of those that take no bytes can
/// be around one that does, unless they come in crowds.
const VALUES_PER_BYTE: usize = DEPTH as usize;

/// The message that these bytes are, all of them.
pub(super) fn decode<M: DeserializeOwned>(bytes: &[u8]) -> Option<M> {
    let mut postcard = postcard::Deserializer::from_bytes(bytes);
    let left = Cell::new((bytes.len() + 1) * VALUES_PER_BYTE);
    let message = M::deserialize(Frugal { inner: &mut postcard, depth: DEPTH, left: &left }).ok()?;
    postcard.finalize().ok()?.is_empty().then_some(message)
}

/// Something of serde's, with what is left to spend in it.
struct Frugal<'a, T> {
    inner: T,
    depth: u32,
    left: &'a Cell<usize>,
}

impl<'a, T> Frugal<'a, T> {
    fn with<U>(&self, inner: U) -> Frugal<'a, U> {
        Frugal { inner, depth: self.depth, left: self.left }
    }

    /// One level further in.
    fn within<U, E: Error>(&self, inner: U) -> Result<Frugal<'a, U>, E> {
        let depth = self.depth.checked_sub(1).ok_or_else(|| E::custom("nested too deep"))?;
        Ok(Frugal { inner, depth, left: self.left })
    }

    fn spend<E: Error>(&self) -> Result<(), E> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| E::custom("too many values"))?;
        self.left.set(left);
        Ok(())
    }
}

macro_rules! deserialize {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {
        $(fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let visitor = self.with(visitor);
            self.inner.$method($($argument,)* visitor)
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Frugal<'_, D> {
    type Error = D::Error;

    deserialize! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_option();
        deserialize_unit();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_seq();
        deserialize_tuple(len: usize);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_map();
        deserialize_struct(name: &'static str, fields: &'static [&'static str]);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
        deserialize_identifier();
        deserialize_ignored_any();
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {
        $(fn $method<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.inner.$method(value)
        })*
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Frugal<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    visit! {
        visit_bool(bool);
        visit_i8(i8);
        visit_i16(i16);
        visit_i32(i32);
        visit_i64(i64);
        visit_i128(i128);
        visit_u8(u8);
        visit_u16(u16);
        visit_u32(u32);
        visit_u64(u64);
        visit_u128(u128);
        visit_f32(f32);
        visit_f64(f64);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.within(inner)?;
        self.inner.visit_some(inner)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let inner = self.within(inner)?;
        self.inner.visit_newtype_struct(inner)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.within(access)?;
        self.inner.visit_seq(access)
    }

    fn visit_map<A: MapAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.within(access)?;
        self.inner.visit_map(access)
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        let access = self.within(access)?;
        self.inner.visit_enum(access)
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Frugal<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.spend()?;
        let inner = self.with(inner);
        self.inner.deserialize(inner)
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Frugal<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let seed = self.with(seed);
        self.inner.next_element_seed(seed)
    }

    /// Postcard's own is no more than there are bytes.
    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// Has no size hint: postcard would repeat what the sender claims.
impl<'de, A: MapAccess<'de>> MapAccess<'de> for Frugal<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        let seed = self.with(seed);
        self.inner.next_key_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.next_value_seed(seed)
    }
}

impl<'a, 'de, A: EnumAccess<'de>> EnumAccess<'de> for Frugal<'a, A> {
    type Error = A::Error;
    type Variant = Frugal<'a, A::Variant>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self::Variant), A::Error> {
        let (seed, depth, left) = (self.with(seed), self.depth, self.left);
        let (value, inner) = self.inner.variant_seed(seed)?;
        Ok((value, Frugal { inner, depth, left }))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Frugal<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, A::Error> {
        let seed = self.with(seed);
        self.inner.newtype_variant_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor);
        self.inner.tuple_variant(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        let visitor = self.with(visitor);
        self.inner.struct_variant(fields, visitor)
    }
}
