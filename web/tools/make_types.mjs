// src/api_types.ts from docs/schema/openapi.json: one type per schema. Understands what that file uses: objects, arrays,
// references, enums, constants, unions of types, oneOf; anything else is an error.
import {readFileSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const plain = {string: "string", integer: "number", number: "number", boolean: "boolean", null: "null"};

function typeOf(schema, indent) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.oneOf) return schema.oneOf.map((part) => typeOf(part, indent)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({type}, indent)).join(" | ");
  if (schema.type === "array") {
    const item = typeOf(schema.items, indent);
    return item.includes("|") ? `(${item})[]` : `${item}[]`;
  }
  if (schema.type === "object") {
    if (!schema.properties) {
      const rest = schema.additionalProperties;
      return `Record<string, ${rest && rest !== true ? typeOf(rest, indent) : "unknown"}>`;
    }
    const inner = `${indent}  `;
    const fields = Object.entries(schema.properties).map(([name, part]) => {
      const optional = schema.required?.includes(name) ? "" : "?";
      return `${inner}${name}${optional}: ${typeOf(part, inner)};`;
    });
    return `{\n${fields.join("\n")}\n${indent}}`;
  }
  if (plain[schema.type]) return plain[schema.type];
  throw new Error(`make_types: cannot say ${JSON.stringify(schema)}`);
}

export function makeTypes() {
  const api = JSON.parse(readFileSync(join(root, "../docs/schema/openapi.json"), "utf8"));
  let text = "// Written by tools/make_types.mjs from docs/schema/openapi.json.\n";
  for (const [name, schema] of Object.entries(api.components.schemas))
    text += `\nexport type ${name} = ${typeOf(schema, "")};\n`;
  const path = join(root, "src/api_types.ts");
  let old = "";
  try {
    old = readFileSync(path, "utf8");
  } catch {
    // the first time
  }
  if (old !== text) writeFileSync(path, text);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) makeTypes();
