// node embed.mjs NPM OUT.cc: installs what package-lock.json names, bundles the browser view and writes it as a source of
// the room serve. Where the packages cannot be had the view is left out, with a warning; an error in our own code fails.
import {execFileSync} from "node:child_process";
import {createHash} from "node:crypto";
import {existsSync, readFileSync, statSync, writeFileSync} from "node:fs";
import {gzipSync} from "node:zlib";

const [npm, out] = process.argv.slice(2);
const installed = "node_modules/.package-lock.json";

function install() {
  const fresh = existsSync(installed) && statSync(installed).mtimeMs >= statSync("package-lock.json").mtimeMs;
  if (fresh) return true;
  try {
    execFileSync(npm, ["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"], {stdio: ["ignore", 2, 2]});
    return true;
  } catch {
    console.error("warning: npm ci failed; the browser view is left out of this build");
    return false;
  }
}

// A string literal of octal codes; in pieces, since compilers bound the length of a line.
function literal(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += 64) {
    let line = "";
    for (const byte of bytes.subarray(at, at + 64)) line += "\\" + byte.toString(8).padStart(3, "0");
    lines.push(`    "${line}"`);
  }
  return lines.join("\n");
}

function source(files) {
  let text = "// Written by web/tools/embed.mjs.\n#include \"serve/assets.h\"\n\nnamespace stepscope {\nnamespace {\n\n";
  files.forEach(({bytes}, i) => {
    text += `constexpr char kFile${i}[] =\n${literal(bytes)};\n\n`;
  });
  if (files.length > 0) {
    text += "constexpr WebAsset kAssets[] = {\n";
    files.forEach(({path, type, bytes}, i) => {
      const tag = createHash("sha256").update(bytes).digest("hex").slice(0, 16);
      text += `    {"${path}", "${type}", "${tag}", {kFile${i}, ${bytes.length}}},\n`;
    });
    text += "};\n\n";
  }
  return text + `}  // namespace\n\nstd::span<const WebAsset> web_assets() { return ${files.length > 0 ? "kAssets" : "{}"}; }\n\n}  // namespace stepscope\n`;
}

let files = [];
if (install()) {
  const {bundle} = await import("./bundle.mjs");
  files = (await bundle()).map(({path, type, text}) => ({path, type, bytes: gzipSync(text, {level: 9})}));
}
writeFileSync(out, source(files));
