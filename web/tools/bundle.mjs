// The files of the browser view: index.html, app.js, app.css, icon.svg. `node bundle.mjs FOLDER` writes them for a look.
import {mkdirSync, readFileSync, writeFileSync} from "node:fs";
import {dirname, join} from "node:path";
import {fileURLToPath} from "node:url";
import {build} from "esbuild";
import {makeTypes} from "./make_types.mjs";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");

export async function bundle() {
  makeTypes();
  const result = await build({
    entryPoints: [join(root, "src/app.tsx")],
    bundle: true,
    minify: true,
    write: false,
    outdir: "/",
    entryNames: "app",
    target: ["es2022"],
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    logLevel: "warning",
    legalComments: "none",
  });
  const types = {js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8"};
  const files = result.outputFiles.map((file) => {
    const path = file.path.split("/").at(-1);
    return {path, type: types[path.split(".").at(-1)], text: file.text};
  });
  const asset = (path, name, type) => ({path, type, text: readFileSync(join(root, "src", name), "utf8")});
  return [
    asset("", "index.html", "text/html; charset=utf-8"),
    asset("icon.svg", "icon.svg", "image/svg+xml"),
    ...files,
  ];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = process.argv[2];
  mkdirSync(folder, {recursive: true});
  for (const {path, text} of await bundle()) writeFileSync(join(folder, path || "index.html"), text);
}
