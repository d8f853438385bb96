// The keys of coins as libraries of existing applications read them: y in 32 bytes, little-endian, and the sign of x.

const FIELD = 21888242871839275222246405745257275088548364400416034343698204186575808495617n;
const A = 168700n;
const D = 168696n;
const SIGN = 1n << 255n;

const modulo = (number: bigint): bigint => ((number % FIELD) + FIELD) % FIELD;

function power(base: bigint, exponent: bigint): bigint {
  let [result, square] = [1n, modulo(base)];
  for (let rest = exponent; rest > 0n; rest >>= 1n) {
    if (rest & 1n) result = modulo(result * square);
    square = modulo(square * square);
  }
  return result;
}

const inverse = (number: bigint): bigint => power(number, FIELD - 2n);

// By Tonelli and Shanks: FIELD - 1 is an odd number times 2^28, and 5 is no square.
function squareRoot(square: bigint): bigint {
  const odd = (FIELD - 1n) >> 28n;
  let [factor, root, rest, twos] = [power(5n, odd), power(square, (odd + 1n) / 2n), power(square, odd), 28n];
  while (rest !== 1n) {
    let steps = 0n;
    for (let each = rest; each !== 1n; each = modulo(each * each)) steps += 1n;
    const change = power(factor, 1n << (twos - steps - 1n));
    [factor, root, rest, twos] = [modulo(change * change), modulo(root * change), modulo(rest * change * change), steps];
  }
  return root;
}

export function decompressed(key: string): [string, string] {
  const bytes = key.replace(/^0x/, "").match(/../g) ?? [];
  const number = BigInt("0x" + bytes.reverse().join(""));
  const y = number & (SIGN - 1n);
  const x = squareRoot(modulo((1n - y * y) * inverse(A - D * y * y)));
  const isUpper = x > FIELD / 2n;
  return [String(isUpper === ((number & SIGN) !== 0n) ? x : FIELD - x), String(y)];
}
