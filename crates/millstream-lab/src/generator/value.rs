//! Values: what a request binds to the parameters of its statements.

use super::seed::{Stream, derived};
use bytes::{BufMut, BytesMut};
use fastrand::Rng;
use serde::Deserialize;
use std::error::Error;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// How a value is drawn for each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Draw {
    /// Each whole number of a range is as likely as another; both ends belong to it.
    Uniform(i64, i64),
}

impl Draw {
    /// The smallest and the largest value.
    pub fn range(self) -> (i64, i64) {
        match self {
            Self::Uniform(least, most) => (least, most),
        }
    }

    fn draw(self, rng: &mut Rng) -> i64 {
        match self {
            Self::Uniform(least, most) => rng.i64(least..=most),
        }
    }
}

/// Draws the values of a request into `drawn`, in the order of `draws`. They depend on the seed, the class and the
/// number of the request, so that it does not matter which connection sends it.
pub(super) fn draw_all(draws: &[Draw], seed: u64, class: usize, number: u64, drawn: &mut Vec<Number>) {
    let mut rng = Rng::with_seed(derived(seed, class, Stream::Values(number)));
    drawn.clear();
    drawn.extend(draws.iter().map(|draw| Number(draw.draw(&mut rng))));
}

/// A whole number that is sent in the type of the parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Number(pub(super) i64);

impl Number {
    /// Why a parameter of that type cannot take the numbers of a draw; `None` if it can.
    pub(super) fn misfit(parameter: &Type, draw: Draw) -> Option<String> {
        if !<Self as ToSql>::accepts(parameter) {
            return Some(format!("PostgreSQL takes it for {}", parameter.name()));
        }
        let bounds = match *parameter {
            Type::INT2 => Some((i64::from(i16::MIN), i64::from(i16::MAX))),
            Type::INT4 => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
            _ => None,
        };
        let ((least, most), (low, high)) = (draw.range(), bounds?);
        (least < low || most > high)
            .then(|| format!("PostgreSQL takes it for {}, from {low} to {high}", parameter.name()))
    }
}

impl ToSql for Number {
    #[expect(clippy::cast_precision_loss, reason = "the user chose a parameter of that type")]
    fn to_sql(&self, parameter: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *parameter {
            Type::INT2 => out.put_i16(i16::try_from(self.0)?),
            Type::INT4 => out.put_i32(i32::try_from(self.0)?),
            Type::INT8 => out.put_i64(self.0),
            Type::FLOAT4 => out.put_f32(self.0 as f32),
            Type::FLOAT8 => out.put_f64(self.0 as f64),
            _ => out.put_slice(self.0.to_string().as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(parameter: &Type) -> bool {
        [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT4, Type::FLOAT8, Type::TEXT, Type::VARCHAR].contains(parameter)
    }

    to_sql_checked!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_depend_on_seed_class_and_number_and_stay_in_range() {
        let draws = [Draw::Uniform(-3, 3), Draw::Uniform(i64::MIN, i64::MAX)];
        let values = |seed, class, number| {
            let mut drawn = vec![Number(0); 9];
            draw_all(&draws, seed, class, number, &mut drawn);
            drawn
        };
        assert_eq!(values(1, 2, 3), values(1, 2, 3));
        assert_ne!(values(1, 2, 3), values(1, 2, 4));
        let mut seen: Vec<i64> = (0..500).map(|number| values(1, 2, number)[0].0).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen, (-3..=3).collect::<Vec<_>>());
    }

    #[test]
    fn a_number_is_sent_in_the_type_of_the_parameter() {
        for (parameter, expected) in [
            (Type::INT2, vec![1, 2]),
            (Type::INT4, vec![0, 0, 1, 2]),
            (Type::INT8, vec![0, 0, 0, 0, 0, 0, 1, 2]),
            (Type::FLOAT8, 258.0_f64.to_be_bytes().to_vec()),
            (Type::TEXT, b"258".to_vec()),
        ] {
            let mut out = BytesMut::new();
            Number(258).to_sql_checked(&parameter, &mut out).unwrap();
            assert_eq!(out.as_ref(), expected, "{parameter}");
        }
    }

    #[test]
    fn a_parameter_that_cannot_take_the_numbers_is_named() {
        let draw = Draw::Uniform(1, 40_000);
        assert_eq!(Number::misfit(&Type::INT4, draw), None);
        assert_eq!(Number::misfit(&Type::TEXT, draw), None);
        assert!(Number::misfit(&Type::INT2, draw).unwrap().contains("32767"));
        assert!(Number::misfit(&Type::NUMERIC, draw).unwrap().contains("numeric"));
    }
}
