//! Deserializes JSON objects only. For a struct, serde would also accept an array with its fields in order.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Deserializes an array of objects.
pub(crate) fn objects<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    let all = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(all.into_iter().map(|Object(one)| one).collect())
}

struct Object<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(OnlyMap(PhantomData)).map(Self)
    }
}

struct OnlyMap<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for OnlyMap<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

#[cfg(test)]
mod tests {
    use crate::{AcquireAllRequest, ReleaseAllRequest, RenewAllRequest};

    #[test]
    fn an_array_is_no_object() {
        let why = |error: serde_json::Error| error.to_string();
        let locks = r#"{"owner_id":"a","ttl_ms":1,"locks":[["x","shared",null,1]]}"#;
        let leases = r#"{"owner_id":"a","leases":[["x","1",1]]}"#;
        let renewed = r#"{"owner_id":"a","extend_by_ms":5,"leases":[["x","1",1]]}"#;
        let said = [
            serde_json::from_str::<AcquireAllRequest>(locks).map(|_| ()).map_err(why),
            serde_json::from_str::<ReleaseAllRequest>(leases).map(|_| ()).map_err(why),
            serde_json::from_str::<RenewAllRequest>(renewed).map(|_| ()).map_err(why),
        ];
        for said in said {
            let said = said.expect_err("arrays");
            assert!(said.starts_with("invalid type: sequence, expected an object"), "{said}");
        }
        let locks = r#"{"owner_id":"a","locks":[{"lock_name":"x","mode":"shared"}]}"#;
        let request: AcquireAllRequest = serde_json::from_str(locks).expect("objects");
        assert_eq!(request.locks[0].lock_name, "x");
    }
}
