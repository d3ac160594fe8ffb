//! Python's integers and floats.

use std::rc::Rc;

use num_bigint::{BigInt, Sign};

use super::Value;
use super::compare::big;
use crate::error::{ErrorKind, Fault, LimitKind, Res};
use crate::limits::INTEGER_DIGITS;
use crate::parser::ast::{BinaryOp, CompareOp};
use crate::vm::World;

/// Parses a JSON number.
pub(crate) fn parse_json<'a>(spelling: &str) -> Res<Value<'a>> {
    if let Ok(value) = spelling.parse::<i64>() {
        return Ok(Value::Int(value));
    }
    let is_integer = spelling.bytes().enumerate().all(|(at, byte)| byte.is_ascii_digit() || (at == 0 && byte == b'-'));
    if !is_integer {
        return spelling
            .parse()
            .map(Value::Float)
            .map_err(|_| Fault::value(format!("{spelling:?} is not a JSON number")));
    }
    parse_digits(spelling)
}

/// Parses a decimal integer of any size.
pub(crate) fn parse_digits<'a>(digits: &str) -> Res<Value<'a>> {
    if digits.len() > INTEGER_DIGITS {
        return Err(Fault::limit(LimitKind::Digits, INTEGER_DIGITS));
    }
    match digits.parse::<BigInt>() {
        Ok(value) => Ok(of_big(value)),
        Err(_) => Err(Fault::value(format!("{digits:?} is not an integer"))),
    }
}

/// Converts an integer to its smallest representation.
pub(crate) fn of_big<'a>(value: BigInt) -> Value<'a> {
    match i64::try_from(&value) {
        Ok(value) => Value::Int(value),
        Err(_) => Value::Big(Rc::new(value)),
    }
}

/// Returns the decimal digits of an integer.
pub(crate) fn big_digits(value: &BigInt) -> Res<String> {
    // Each digit takes 3.33 bits.
    if value.bits() > INTEGER_DIGITS as u64 * 3322 / 1000 + 4 {
        return Err(Fault::limit(LimitKind::Digits, INTEGER_DIGITS));
    }
    Ok(value.to_string())
}

/// Converts a float without a fraction to an integer; `None` if it is not finite.
pub(crate) fn float_to_int(value: f64) -> Option<BigInt> {
    if !value.is_finite() {
        return None;
    }
    let bits = value.abs().to_bits();
    let exponent = (bits >> 52) as i32 - 1075;
    let mantissa = if bits >> 52 == 0 { (bits & ((1 << 52) - 1)) << 1 } else { (bits & ((1 << 52) - 1)) | (1 << 52) };
    let magnitude = match exponent {
        0.. => BigInt::from(mantissa) << exponent as usize,
        _ if exponent > -64 => BigInt::from(mantissa >> -exponent),
        _ => BigInt::ZERO,
    };
    Some(if value < 0.0 { -magnitude } else { magnitude })
}

/// Converts a number to the nearest float.
pub(crate) fn to_float(value: &Value<'_>) -> Res<f64> {
    match value {
        Value::Float(value) => Ok(*value),
        Value::Int(value) => Ok(*value as f64),
        Value::Bool(value) => Ok(f64::from(u8::from(*value))),
        Value::Big(value) => big_to_float(value),
        Value::Undefined(absence) => Err(absence.fault()),
        other => Err(Fault::type_error(format!("must be real number, not {}", other.kind()))),
    }
}

fn big_to_float(value: &BigInt) -> Res<f64> {
    let too_large = || Fault::value("int too large to convert to float");
    let bits = value.bits();
    if bits > 1024 {
        return Err(too_large());
    }
    // Parsing decimal digits rounds correctly.
    let float: f64 = value.to_string().parse().map_err(|_| too_large())?;
    if float.is_infinite() { Err(too_large()) } else { Ok(float) }
}

pub(crate) fn is_number(value: &Value<'_>) -> bool {
    matches!(value, Value::Int(_) | Value::Big(_) | Value::Float(_) | Value::Bool(_))
}

/// Converts a value to a 64-bit integer where Python expects an index.
pub(crate) fn index(value: &Value<'_>) -> Res<i64> {
    match value {
        Value::Int(value) => Ok(*value),
        Value::Bool(value) => Ok(i64::from(*value)),
        Value::Big(value) => Ok(if value.sign() == Sign::Minus { i64::MIN } else { i64::MAX }),
        Value::Undefined(absence) => Err(absence.fault()),
        other => Err(Fault::type_error(format!("'{}' object cannot be interpreted as an integer", other.kind()))),
    }
}

/// Computes an operation on two numbers.
pub(crate) fn arithmetic<'a>(world: &World<'a>, op: BinaryOp, left: &Value<'a>, right: &Value<'a>) -> Res<Value<'a>> {
    if let (Value::Int(_) | Value::Bool(_), Value::Int(_) | Value::Bool(_)) = (left, right) {
        let (left, right) = (index(left)?, index(right)?);
        if let Some(value) = small(op, left, right)? {
            return Ok(value);
        }
    }
    if op == BinaryOp::Div {
        let bits = |value: &Value<'_>| if let Value::Big(value) = value { value.bits() } else { 64 };
        world.work((bits(left).max(bits(right)) / 4 * (bits(right) / 64 + 1)) as usize)?;
        return divide(left, right);
    }
    if matches!(left, Value::Float(_)) || matches!(right, Value::Float(_)) {
        return floats(op, to_float(left)?, to_float(right)?).map(Value::Float);
    }
    bigs(world, op, big(left), big(right))
}

/// Adds or subtracts; `None` if the result does not fit 64 bits.
#[inline]
pub(crate) fn count(op: BinaryOp, left: i64, right: i64) -> Option<i64> {
    match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Sub => left.checked_sub(right),
        _ => None,
    }
}

/// Compares two integers; `None` for the operators that also work on other values than numbers.
#[inline]
pub(crate) fn ordered(op: CompareOp, left: i64, right: i64) -> Option<bool> {
    Some(match op {
        CompareOp::Eq => left == right,
        CompareOp::Ne => left != right,
        CompareOp::Lt => left < right,
        CompareOp::Le => left <= right,
        CompareOp::Gt => left > right,
        CompareOp::Ge => left >= right,
        CompareOp::In | CompareOp::NotIn => return None,
    })
}

/// Computes an operation on 64-bit integers; `None` if the result does not fit.
fn small<'a>(op: BinaryOp, left: i64, right: i64) -> Res<Option<Value<'a>>> {
    let value = match op {
        BinaryOp::Add | BinaryOp::Sub => count(op, left, right),
        BinaryOp::Mul => left.checked_mul(right),
        BinaryOp::FloorDiv | BinaryOp::Mod if right == 0 => {
            return Err(Fault::value(if op == BinaryOp::Mod {
                "integer modulo by zero"
            } else {
                "integer division or modulo by zero"
            }));
        }
        BinaryOp::FloorDiv => {
            left.checked_div(right).map(|quotient| quotient - i64::from(left % right != 0 && (left < 0) != (right < 0)))
        }
        BinaryOp::Mod => {
            left.checked_rem(right).map(|rest| if rest != 0 && (rest < 0) != (right < 0) { rest + right } else { rest })
        }
        BinaryOp::Pow => match u32::try_from(right) {
            Ok(exponent) => left.checked_pow(exponent),
            Err(_) => None,
        },
        BinaryOp::Div => None,
    };
    Ok(value.map(Value::Int))
}

fn divide<'a>(left: &Value<'a>, right: &Value<'a>) -> Res<Value<'a>> {
    let divisor_is_zero = match right {
        Value::Float(value) => *value == 0.0,
        other => big(other) == BigInt::ZERO,
    };
    if divisor_is_zero {
        return Err(Fault::value("division by zero"));
    }
    // Floats represent integers up to this size exactly, and the quotient of two of them is rounded
    // correctly.
    let is_exact = |value: &Value<'_>| match value {
        Value::Int(value) => value.unsigned_abs() <= 1 << 53,
        Value::Big(_) => false,
        _ => true,
    };
    let has_float = matches!(left, Value::Float(_)) || matches!(right, Value::Float(_));
    if !(has_float || is_exact(left) && is_exact(right)) {
        return big_quotient(&big(left), &big(right)).map(Value::Float);
    }
    Ok(Value::Float(to_float(left)? / to_float(right)?))
}

/// Returns the correctly rounded quotient of two large integers, which may itself be small.
fn big_quotient(left: &BigInt, right: &BigInt) -> Res<f64> {
    let shift = 66 + right.bits() as i64 - left.bits() as i64;
    let (left, right) = if shift > 0 {
        (left << shift as usize, right.clone())
    } else {
        (left.clone(), right << shift.unsigned_abs() as usize)
    };
    let mut quotient = &left / &right;
    if !quotient.bit(0) && &quotient * &right != left {
        // The truncated remainder still decides between two equally near floats.
        quotient += if quotient.sign() == Sign::Minus { -1 } else { 1 };
    }
    let float = big_to_float(&quotient)?;
    let power = (-shift).clamp(-2000, 2000) as i32;
    let scaled = float * 2f64.powi(power / 2) * 2f64.powi(power - power / 2);
    if scaled.is_infinite() {
        return Err(Fault::value("integer division result too large for a float"));
    }
    Ok(scaled)
}

fn floats(op: BinaryOp, left: f64, right: f64) -> Res<f64> {
    Ok(match op {
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => left * right,
        BinaryOp::Div => left / right,
        BinaryOp::FloorDiv | BinaryOp::Mod if right == 0.0 => {
            return Err(Fault::value(if op == BinaryOp::Mod {
                "float modulo"
            } else {
                "float floor division by zero"
            }));
        }
        BinaryOp::Mod => float_mod(left, right),
        BinaryOp::FloorDiv => {
            // CPython's float_divmod
            let rest = left % right;
            let mut quotient = (left - rest) / right;
            if rest != 0.0 && (right < 0.0) != (rest < 0.0) {
                quotient -= 1.0;
            }
            let floored = quotient.floor();
            if quotient == 0.0 {
                return Ok(0f64.copysign(left / right));
            }
            if quotient - floored > 0.5 { floored + 1.0 } else { floored }
        }
        BinaryOp::Pow => {
            if left == 0.0 && right < 0.0 {
                return Err(Fault::value("0.0 cannot be raised to a negative power"));
            }
            if left < 0.0 && right.fract() != 0.0 && right.is_finite() {
                return Err(Fault::unsupported("complex numbers are not supported"));
            }
            let power = left.powf(right);
            if power.is_infinite() && left.is_finite() && right.is_finite() {
                return Err(Fault::value("(34, 'Numerical result out of range')"));
            }
            power
        }
    })
}

fn float_mod(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 { if (rest < 0.0) != (right < 0.0) { rest + right } else { rest } } else { 0f64.copysign(right) }
}

fn bigs<'a>(world: &World<'a>, op: BinaryOp, left: BigInt, right: BigInt) -> Res<Value<'a>> {
    let limit = world.limits.integer_bits;
    let check = |bits: u64| {
        if bits > limit { Err(Fault::limit(LimitKind::Integer, limit)) } else { Ok(()) }
    };
    check(left.bits())?;
    check(right.bits())?;
    // The memory of the result is not counted, so fuel must bound it.
    world.work((left.bits().max(right.bits()) + left.bits() / 8 * (right.bits() / 64 + 1)) as usize)?;
    let value = match op {
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => {
            check(left.bits() + right.bits())?;
            left * right
        }
        BinaryOp::FloorDiv | BinaryOp::Mod => {
            if right == BigInt::ZERO {
                return Err(Fault::value("integer division or modulo by zero"));
            }
            let mut quotient = &left / &right;
            let mut rest = &left % &right;
            if rest != BigInt::ZERO && (rest.sign() == Sign::Minus) != (right.sign() == Sign::Minus) {
                quotient -= 1;
                rest += &right;
            }
            if op == BinaryOp::Mod { rest } else { quotient }
        }
        BinaryOp::Pow => {
            if right.sign() == Sign::Minus {
                let (base, exponent) = (big_to_float(&left)?, big_to_float(&right)?);
                return floats(BinaryOp::Pow, base, exponent).map(Value::Float);
            }
            let is_unit = left.bits() <= 1;
            let exponent = match u32::try_from(&right) {
                Ok(exponent) => exponent,
                // 0, 1 or -1, to any power.
                Err(_) if is_unit => u32::from(right.bit(0)) + 2,
                Err(_) => return Err(Fault::limit(LimitKind::Integer, limit)),
            };
            if !is_unit {
                check(left.bits().saturating_sub(1).saturating_mul(u64::from(exponent)))?;
            }
            let bits = left.bits().saturating_mul(u64::from(exponent));
            world.work((bits.min(limit) / 8 * (bits.min(limit) / 64 + 1)) as usize)?;
            left.pow(exponent)
        }
        BinaryOp::Div => return Err(Fault::new(ErrorKind::Type, "division of integers gives a float")),
    };
    check(value.bits())?;
    Ok(of_big(value))
}
