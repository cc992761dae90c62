//! How it shows that bytes are not what they should be.

use crate::history::Fate;
use crate::property::Property;
use crate::recoveries::observation::Strange;
use crate::truth::DeviceTruth;
use crate::violation::Symptom;
use kvsim_api::value::Reading;

/// How the return of a retired content is called.
pub(crate) fn symptom_of(fate: Fate) -> Symptom {
    match fate {
        Fate::Replaced => Symptom::StaleValue,
        Fate::Dead => Symptom::DeadWriteBack,
        Fate::Failed => Symptom::FailedWriteApplied,
    }
}

/// What bytes that were never written to their key break: damage if the device lied or no write has such bytes, else `otherwise`.
pub(crate) fn strange(
    strange: &Strange,
    truth: &DeviceTruth,
    otherwise: Property,
) -> (Property, Symptom) {
    let symptom = match strange.reading {
        _ if strange.unknown_key => Symptom::UnknownKey,
        Reading::Whole(stamp) if stamp.key_hash == kvsim_api::value::key_hash(&strange.key) => {
            Symptom::StaleValue
        }
        Reading::Whole(_) => Symptom::ForeignValue,
        Reading::Resized { .. } => Symptom::ResizedValue,
        Reading::Damaged(_) | Reading::Foreign | Reading::TooShort => Symptom::DamagedValue,
    };
    let property = match symptom {
        _ if truth.damage() + truth.read_errors > 0 || strange.is_damaged() => {
            Property::DamageReported
        }
        Symptom::StaleValue => Property::NoResurrection,
        Symptom::ResizedValue | Symptom::DamagedValue => Property::DamageReported,
        _ => otherwise,
    };
    (property, symptom)
}
