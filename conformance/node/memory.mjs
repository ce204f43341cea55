// Structures of C as bytes: addresses are BigInts, and what is allocated here stays until the program frees it.
import koffi from "koffi";

// The driver plans statements on the stack of its caller, which is small by default.
koffi.config({ sync_stack_size: 8 << 20, async_stack_size: 8 << 20 });

const calls = new Map();

export function allocated(bytes) {
  const address = koffi.address(koffi.alloc("uint8_t", bytes));
  new Uint8Array(koffi.view(address, bytes)).fill(0);
  return address;
}

export function utf8(text) {
  const bytes = new TextEncoder().encode(text);
  const address = allocated(bytes.length + 1);
  new Uint8Array(koffi.view(address, bytes.length + 1)).set(bytes);
  return address;
}

export const view = (address, bytes) => new DataView(koffi.view(address, bytes));
export const pointer = (address, offset = 0) => view(address + BigInt(offset), 8).getBigUint64(0, true);
export const setPointer = (address, offset, to) => view(address + BigInt(offset), 8).setBigUint64(0, BigInt(to), true);
export const text = (address) => (address ? koffi.decode(address, "char", -1) : "");

// The function at an address. `form` is its result and its arguments, for example "int (void *, void *)".
export function functionAt(address, form) {
  if (!calls.has(form)) calls.set(form, koffi.proto(form.replace("(", `Form${calls.size}(`)));
  return koffi.decode(address, calls.get(form));
}
