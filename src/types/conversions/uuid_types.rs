//! Conversions between [`Uuid`] and the type of the crate `uuid`.

use super::{AsValue, wrong_read};
use crate::error::{Error, Result};
use crate::types::{Uuid, Value, ValueRef};

impl From<uuid::Uuid> for Uuid {
    fn from(id: uuid::Uuid) -> Uuid {
        Uuid::from_bytes(id.into_bytes())
    }
}

impl From<Uuid> for uuid::Uuid {
    fn from(id: Uuid) -> uuid::Uuid {
        uuid::Uuid::from_bytes(id.bytes())
    }
}

from_scalar! {
    uuid::Uuid: value => ValueRef::Uuid(value.into());
}

try_from_value! {
    uuid::Uuid, "a uuid", ValueRef::Uuid(value) => Ok(value.into());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    #[test]
    fn an_identifier_of_the_crate_uuid_goes_in_and_comes_out() {
        let id = uuid::Uuid::from_u128(0x67e5_5044_10b1_426f_9247_bb68_0e5f_e0c8);
        let row = row![id, Some(id), None::<uuid::Uuid>];
        assert_eq!(row[0], ValueRef::Uuid("67e55044-10b1-426f-9247-bb680e5fe0c8".parse().unwrap()));
        assert_eq!(uuid::Uuid::try_from(row[1]), Ok(id));
        assert_eq!(Option::<uuid::Uuid>::try_from(row[2]), Ok(None));
        assert!(uuid::Uuid::try_from(ValueRef::Int(1)).is_err());
        assert_eq!(Value::from(id).as_value_ref(), row[0]);
    }
}
