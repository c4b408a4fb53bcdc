/* Runs model.wasm of this folder in a browser, Node, Deno or Bun.
 *
 *     import { fetchModel } from "./tunefarm.mjs";
 *     const model = await fetchModel();
 *     const { scores } = model.run({ image: new Float32Array(3 * 224 * 224) });
 *
 * Where `fetch` cannot read the folder, give the contents of manifest.json, model.wasm and weights.bin to `loadModel`.
 * float16 and bfloat16 are arrays of the 16 bits of each element, and bool is an array of bytes.
 */
const ELEMENTS = {
  float64: Float64Array,
  float32: Float32Array,
  float16: Uint16Array,
  bfloat16: Uint16Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};
const ABI_VERSION = 1;
/* Floats of 16 bits round each sum and each intermediate tensor more coarsely. */
const HALF_TOLERANCES = 4;

/** The model of the folder at a URL, by default that of this file. */
export async function fetchModel(folder = new URL("./", import.meta.url)) {
  const [manifest, module, weights] = await Promise.all(
    ["manifest.json", "model.wasm", "weights.bin"].map((name) => contents(folder, name)),
  );
  return loadModel(JSON.parse(new TextDecoder().decode(manifest)), module, weights);
}

/** The model with the parsed manifest, the bytes or the `WebAssembly.Module` of model.wasm, and the bytes of the weights. */
export async function loadModel(manifest, module, weights) {
  const made = await WebAssembly.instantiate(module, {});
  return new Model((made.instance ?? made).exports, manifest, weights);
}

/** Runs the test vectors of the bundle: their number, and the largest error relative to what is allowed. */
export async function selfTest(folder = new URL("./", import.meta.url)) {
  const model = await fetchModel(folder);
  let vectors = 0;
  let worstError = 0;
  for (const { entry, vectors: own } of model.described) {
    for (const vector of own) {
      const inputs = await tensors(folder, entry.inputs, vector.inputs);
      const expected = await tensors(folder, entry.outputs, vector.outputs);
      const found = model.run(inputs, entry.name);
      for (const { name, dtype } of entry.outputs) {
        worstError = Math.max(worstError, errorOf(found[name], expected[name], dtype, model.manifest.tolerance));
      }
      vectors += 1;
    }
  }
  return { vectors, worstError };
}

/** A loaded model. It has one memory, so it runs one call at a time. */
export class Model {
  #exports;
  #weights;
  #entries = new Map();

  constructor(exports, manifest, weights) {
    exports._initialize?.();
    if (exports.tunefarm_abi_version() !== ABI_VERSION) {
      throw new Error("model.wasm and tunefarm.mjs are of different versions: take both from one bundle");
    }
    this.manifest = manifest;
    this.#exports = exports;
    if (weights.byteLength !== exports.tunefarm_weights_bytes()) {
      throw new RangeError(`the weights have ${weights.byteLength} bytes, not ${exports.tunefarm_weights_bytes()}`);
    }
    this.#weights = this.#allocated(weights.byteLength);
    this.#bytes(this.#weights, weights.byteLength).set(new Uint8Array(weights.buffer ?? weights, weights.byteOffset ?? 0, weights.byteLength));
  }

  /** Entries with their test vectors, as the manifest describes them. */
  get described() {
    return [this.manifest, ...(this.manifest.others ?? [])];
  }

  /** Runs an entry. Takes typed arrays, and returns new ones, both by the names of the manifest. */
  run(inputs, name = this.manifest.entry.name) {
    const called = this.#entry(name);
    for (const { name: input, dtype, bytes, address } of called.inputs) {
      const given = inputs[input];
      if (!(given instanceof ELEMENTS[dtype]) || given.byteLength !== bytes) {
        throw new TypeError(`${input} must be a ${ELEMENTS[dtype].name} of ${bytes} bytes`);
      }
      this.#bytes(address, bytes).set(new Uint8Array(given.buffer, given.byteOffset, bytes));
    }
    const { number, arena, given, made } = called;
    if (this.#exports.tunefarm_run(number, this.#weights, arena, given, made) !== 0) throw new Error(this.#reason());
    const results = called.outputs.map(({ name: output, dtype, bytes, address }) => [
      output,
      new ELEMENTS[dtype](this.#bytes(address, bytes).slice().buffer),
    ]);
    return Object.fromEntries(results);
  }

  #entry(name) {
    const known = this.#entries.get(name);
    if (known !== undefined) return known;
    const number = this.described.findIndex(({ entry }) => entry.name === name);
    if (number < 0) throw new RangeError(`the model has no entry ${name}`);
    const { entry } = this.described[number];
    const inputs = entry.inputs.map((each) => this.#placed(each));
    const outputs = entry.outputs.map((each) => this.#placed(each));
    const arena = this.#allocated(this.#exports.tunefarm_arena_bytes(number));
    const made = { number, inputs, outputs, arena, given: this.#addresses(inputs), made: this.#addresses(outputs) };
    this.#entries.set(name, made);
    return made;
  }

  #placed({ name, dtype, shape }) {
    if (ELEMENTS[dtype] === undefined) throw new TypeError(`${name} has the element type ${dtype}`);
    const bytes = shape.reduce((product, extent) => product * extent, ELEMENTS[dtype].BYTES_PER_ELEMENT);
    return { name, dtype, bytes, address: this.#allocated(bytes) };
  }

  #addresses(many) {
    const list = this.#allocated(4 * many.length);
    new Uint32Array(this.#exports.memory.buffer, list, many.length).set(many.map(({ address }) => address));
    return list;
  }

  #allocated(bytes) {
    const address = this.#exports.tunefarm_allocate(bytes) >>> 0;
    if (address === 0) throw new RangeError(`there is no memory for ${bytes} bytes`);
    return address;
  }

  /* A new view each time: an allocation that enlarges the memory detaches the views before it. */
  #bytes(address, bytes) {
    return new Uint8Array(this.#exports.memory.buffer, address, bytes);
  }

  #reason() {
    const text = new Uint8Array(this.#exports.memory.buffer, this.#exports.tunefarm_error() >>> 0);
    return new TextDecoder().decode(text.slice(0, text.indexOf(0)));
  }
}

async function tensors(folder, described, files) {
  const read = described.map(async ({ name, dtype }, at) => [
    name,
    new ELEMENTS[dtype](await contents(folder, files[at])),
  ]);
  return Object.fromEntries(await Promise.all(read));
}

async function contents(folder, name) {
  const answer = await fetch(new URL(name, folder));
  if (!answer.ok) throw new Error(`${answer.url}: ${answer.status} ${answer.statusText}`);
  return answer.arrayBuffer();
}

/**
 * The largest difference relative to the largest element, in units of what is allowed; infinite where elements that must
 * be equal are not.
 */
function errorOf(foundElements, expectedElements, dtype, tolerance) {
  if (!["float16", "bfloat16", "float32", "float64"].includes(dtype)) {
    return foundElements.every((each, at) => each === expectedElements[at]) ? 0 : Infinity;
  }
  const [found, expected] = [numbersOf(foundElements, dtype), numbersOf(expectedElements, dtype)];
  let largest = 0;
  let scale = 1e-6;
  for (let at = 0; at < expected.length; at += 1) {
    if (Number.isFinite(found[at]) !== Number.isFinite(expected[at])) return Infinity;
    if (!Number.isFinite(expected[at])) continue;
    scale = Math.max(scale, Math.abs(expected[at]));
    largest = Math.max(largest, Math.abs(found[at] - expected[at]));
  }
  return largest / scale / (ELEMENTS[dtype] === Uint16Array ? HALF_TOLERANCES * tolerance : tolerance);
}

/** The values of floats, of which those of 16 bits are arrays of their bits. */
function numbersOf(elements, dtype) {
  if (dtype === "bfloat16") return new Float32Array(Uint32Array.from(elements, (bits) => bits << 16).buffer);
  return dtype === "float16" ? Float64Array.from(elements, half) : elements;
}

function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  let value = (fraction + (exponent > 0 ? 1024 : 0)) * 2 ** ((exponent > 0 ? exponent : 1) - 25);
  if (exponent === 31) value = fraction === 0 ? Infinity : NaN;
  return bits >> 15 ? -value : value;
}
