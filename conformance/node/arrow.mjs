// Arrow's C data interface: the rows of arrays in the notation of Jdbc.java, and arrays of parameters.
import koffi from "koffi";
import { allocated, pointer, setPointer, text, utf8, view } from "./memory.mjs";

const encoded = (given) => Buffer.from(given, "utf8").toString("base64");

// The formats of a schema's columns.
export function schema(address) {
  const children = pointer(address, 40);
  return Array.from({ length: Number(pointer(address, 32)) }, (_, at) => text(pointer(pointer(children, 8 * at))));
}

// The rows of a batch, each a line of values.
export function* rows(formats, batch) {
  const children = pointer(batch, 48);
  const columns = formats.map((format, at) => column(format, pointer(children, 8 * at)));
  for (let at = 0; at < Number(pointer(batch)); at++) yield columns.map((value) => value(at)).join(" ");
}

// A function from the number of a row to its value.
function column(format, array) {
  const [length, offset] = [Number(pointer(array)), Number(pointer(array, 16))];
  const buffer = (at) => pointer(pointer(array, 40), 8 * at);
  if (format === "n") return () => "N";
  const value = values(format, buffer, length + offset);
  const validity = buffer(0) ? view(buffer(0), (length + offset + 7) >> 3) : null;
  return (row) => (validity && !isSet(validity, row + offset) ? "N" : value(row + offset));
}

const isSet = (bits, at) => ((bits.getUint8(at >> 3) >> (at & 7)) & 1) === 1;
const plain = (value) => `v${encoded(String(value))}`;
const hex = (number, digits) => number.toString(16).padStart(digits, "0");

// The widths of numbers, and how they are read.
const NUMBERS = {
  c: [1, "getInt8"],
  C: [1, "getUint8"],
  s: [2, "getInt16"],
  S: [2, "getUint16"],
  i: [4, "getInt32"],
  I: [4, "getUint32"],
  l: [8, "getBigInt64"],
  L: [8, "getBigUint64"],
};
const UNITS = { s: 1n, m: 1_000n, u: 1_000_000n, n: 1_000_000_000n };

function values(format, buffer, count) {
  const numbers = (width, read) => {
    const bytes = view(buffer(1), width * count);
    return (at) => bytes[read](at * width, true);
  };
  const [kind, detail] = [format.slice(0, 3), format.slice(3)];
  if (NUMBERS[format]) return mapped(numbers(...NUMBERS[format]), plain);
  if (format === "b") return mapped(bits(view(buffer(1), (count + 7) >> 3)), plain);
  if (format === "f") return mapped(numbers(4, "getUint32"), (number) => `f${hex(number, 8)}`);
  if (format === "g") return mapped(numbers(8, "getBigUint64"), (number) => `d${hex(number, 16)}`);
  if (format === "u" || format === "z") return mapped(texts(buffer, count), (base64) => (format === "u" ? "s" : "x") + base64);
  if (format === "tdD") return mapped(numbers(4, "getInt32"), (days) => plain(day(days)));
  if (kind === "ttu" || kind === "ttn") return mapped(numbers(8, "getBigInt64"), (time) => plain(clock(time, UNITS[format[2]])));
  if (format.startsWith("ts")) {
    const [unit, zone] = [UNITS[format[2]], detail.slice(1) === "" ? "" : "+00:00"];
    return mapped(numbers(8, "getBigInt64"), (instant) => plain(moment(instant, unit) + zone));
  }
  if (format.startsWith("d:")) return decimals(format, view(buffer(1), 16 * count));
  throw new Error(`a value of the format ${format} has no form here`);
}

const mapped = (read, to) => (at) => to(read(at));
const bits = (bytes) => (at) => isSet(bytes, at);

function texts(buffer, count) {
  const offsets = view(buffer(1), 4 * (count + 1));
  const size = offsets.getInt32(4 * count, true);
  const bytes = size ? Buffer.from(koffi.view(buffer(2), size)) : Buffer.alloc(0);
  return (at) => bytes.subarray(offsets.getInt32(4 * at, true), offsets.getInt32(4 * at + 4, true)).toString("base64");
}

function decimals(format, bytes) {
  const [, scale, width] = format.slice(2).split(",").map(Number);
  if (width !== undefined && width !== 128) throw new Error(`a decimal of ${width} bits has no form here`);
  return (at) => {
    const number = (bytes.getBigInt64(16 * at + 8, true) << 64n) | bytes.getBigUint64(16 * at, true);
    const digits = String(number < 0 ? -number : number).padStart(scale + 1, "0");
    const [whole, fraction] = [digits.slice(0, digits.length - scale), digits.slice(digits.length - scale)];
    return plain(`${number < 0 ? "-" : ""}${whole}${scale ? `.${fraction}` : ""}`);
  };
}

// The years of the cases have four digits.
const day = (days) => new Date(days * 86_400_000).toISOString().slice(0, 10);

// A time of day, with six digits of a second if it has a fraction.
function clock(time, units) {
  const seconds = Number(time / units);
  const micros = units > 1_000_000n ? (time % units) / 1000n : (time % units) * (1_000_000n / units);
  const parts = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const whole = parts.map((part) => String(part).padStart(2, "0")).join(":");
  return micros ? `${whole}.${String(micros).padStart(6, "0")}` : whole;
}

function moment(instant, units) {
  const perDay = 86_400n * units;
  const rest = ((instant % perDay) + perDay) % perDay;
  return `${day(Number((instant - rest) / perDay))} ${clock(rest, units)}`;
}

// A row of values, given as types and texts in turn: an array and its schema.
export function parameters(given) {
  const columns = [];
  for (let at = 0; at < given.length; at += 2) columns.push(parameter(given[at], given[at + 1]));
  const [array, described] = [allocated(80), allocated(72)];
  const [arrays, schemas] = [allocated(8 * columns.length), allocated(8 * columns.length)];
  columns.forEach(({ format, buffers }, at) => {
    const [child, field] = [allocated(80), allocated(72)];
    fillArray(child, [0n, ...buffers], 0, 0n);
    fillSchema(field, format, String(at), 0, 0n);
    setPointer(arrays, 8 * at, child);
    setPointer(schemas, 8 * at, field);
  });
  fillArray(array, [0n], columns.length, arrays);
  fillSchema(described, "+s", "", columns.length, schemas);
  return [array, described];
}

// What was given is kept until the program ends: whoever releases it marks it as released.
const releaseArray = koffi.register((address) => setPointer(BigInt(address), 64, 0), koffi.pointer(koffi.proto("void ReleaseArray(uint64_t)")));
const releaseSchema = koffi.register((address) => setPointer(BigInt(address), 56, 0), koffi.pointer(koffi.proto("void ReleaseSchema(uint64_t)")));

function fillArray(array, buffers, children, child) {
  const list = allocated(8 * buffers.length);
  buffers.forEach((buffer, at) => setPointer(list, 8 * at, buffer));
  setPointer(array, 0, 1);
  setPointer(array, 24, buffers.length);
  setPointer(array, 32, children);
  setPointer(array, 40, list);
  setPointer(array, 48, child);
  setPointer(array, 64, koffi.address(releaseArray));
}

function fillSchema(field, format, name, children, child) {
  setPointer(field, 0, utf8(format));
  setPointer(field, 8, utf8(name));
  setPointer(field, 24, 2);
  setPointer(field, 32, children);
  setPointer(field, 40, child);
  setPointer(field, 56, koffi.address(releaseSchema));
}

function parameter(type, given) {
  const filled = (bytes, fill) => {
    const address = allocated(bytes);
    fill(view(address, bytes));
    return address;
  };
  const int64 = (number) => [filled(8, (to) => to.setBigInt64(0, number, true))];
  switch (type) {
    case "INTEGER":
    case "BIGINT":
      return { format: "l", buffers: int64(BigInt(given)) };
    case "DOUBLE":
      return { format: "g", buffers: [filled(8, (to) => to.setFloat64(0, Number(given), true))] };
    case "BOOLEAN":
      return { format: "b", buffers: [filled(8, (to) => to.setUint8(0, given === "True" ? 1 : 0))] };
    case "DECIMAL": {
      const number = BigInt(given.replace(".", ""));
      const scale = given.includes(".") ? given.length - given.indexOf(".") - 1 : 0;
      const fill = (to) => {
        to.setBigUint64(0, BigInt.asUintN(64, number), true);
        to.setBigInt64(8, number >> 64n, true);
      };
      return { format: `d:38,${scale}`, buffers: [filled(16, fill)] };
    }
    case "DATE":
      return { format: "tdD", buffers: [filled(8, (to) => to.setInt32(0, Date.parse(`${given}T00:00:00Z`) / 86_400_000, true))] };
    case "TIMESTAMP":
      return { format: "tsu:", buffers: int64(BigInt(Date.parse(`${given.replace(" ", "T")}Z`)) * 1000n) };
    default: {
      const bytes = Buffer.from(given, "utf8");
      const data = filled(Math.max(bytes.length, 1), (to) => bytes.forEach((byte, at) => to.setUint8(at, byte)));
      return { format: "u", buffers: [filled(8, (to) => to.setInt32(4, bytes.length, true)), data] };
    }
  }
}
