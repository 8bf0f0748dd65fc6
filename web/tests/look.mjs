// node tests/look.mjs CHROMIUM URL FOLDER: opens the browser view at URL (token included), walks through every page, saves
// screenshots into FOLDER, and checks each: no error in the console, no request to another origin, axe finds nothing,
// no text out of its box. Prints one JSON object a page; exit code 1 when something is wrong.
//
//   --run NAME       which run (default: the first of the history)
//   --compare A,B    also the comparison
//   --live           the run goes on: the page must change by itself
import {readFileSync} from "node:fs";
import {createRequire} from "node:module";
import {join} from "node:path";
import {parseArgs} from "node:util";
import {chromium} from "playwright-core";

const {values, positionals} = parseArgs({
  allowPositionals: true,
  options: {run: {type: "string"}, compare: {type: "string"}, live: {type: "boolean"}, pages: {type: "string"}, quick: {type: "boolean"}},
});
const [executablePath, url, folder] = positionals;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const base = new URL(url).origin;

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--disable-gpu"],
});
let failures = 0;

async function opened(theme, width) {
  const context = await browser.newContext({viewport: {width, height: 900}, colorScheme: theme, bypassCSP: true});
  const page = await context.newPage();
  const trouble = [];
  page.on("console", (message) => {
    if (message.type() === "error") trouble.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => trouble.push(`error: ${error.message}`));
  page.on("request", (request) => {
    const address = new URL(request.url());
    if (address.protocol !== "data:" && address.origin !== base) trouble.push(`request: ${request.url()}`);
  });
  await page.goto(url, {waitUntil: "load"});
  return {context, page, trouble};
}

async function settled(page) {
  await page.waitForFunction(() => document.querySelector("main")?.children.length > 0 && !document.querySelector(".waiting"), {timeout: 20000});
  await page.waitForTimeout(250);
}

async function check(page, trouble, name, theme) {
  await page.screenshot({path: join(folder, `${name}-${theme}.png`), fullPage: true});
  const found = values.quick && theme === "dark" ? [] : await page.evaluate(async (source) => {
    if (!window.axe) (0, eval)(source);
    const result = await window.axe.run(document, {resultTypes: ["violations"]});
    return result.violations.map((v) => `${v.id}: ${v.nodes.length} × ${v.nodes[0]?.html.slice(0, 120)} ${v.nodes[0]?.any[0]?.message ?? ""}`);
  }, axe);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > innerWidth + 1);
  const text = await page.evaluate(() => document.querySelector("main")?.innerText ?? "");
  const wrong = [...trouble.splice(0), ...found.map((v) => `axe ${v}`)];
  const beyond = wide && await page.evaluate(() => [...document.querySelectorAll("body *")]
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.parentElement.closest(".scroll"))
    .map((e) => `${e.tagName}.${e.className}`).slice(0, 6).join(" "));
  if (wide) wrong.push(`the page is wider than the window: ${beyond}`);
  if (text.trim().length < 20) wrong.push("an empty page");
  if (/undefined|NaN|\[object/.test(text)) wrong.push(`not for people: ${/.{0,30}(undefined|NaN|\[object).{0,30}/.exec(text)[0]}`);
  if (wrong.length > 0) failures++;
  console.log(JSON.stringify({page: name, theme, title: await page.title(), wrong}));
}

const PAGES = (values.pages ?? "overview,findings,ranks,step,memory,collectives,system").split(",");
const themes = values.quick ? [["light", 1280]] : [["light", 1280], ["dark", 1280], ["light", 420]];
for (const [theme, width] of themes) {
  const {context, page, trouble} = await opened(theme, width);
  const tag = width < 600 ? "narrow" : theme;
  await settled(page);
  if ((await page.evaluate(() => location.href)).includes("token=")) {
    failures++;
    console.log(JSON.stringify({page: "address", wrong: ["the token stays in the address"]}));
  }
  await check(page, trouble, "runs", tag);
  const run = values.run ?? (await page.locator("table.runs tbody a").first().innerText());
  for (const name of PAGES) {
    await page.goto(`${base}/#/run/${encodeURIComponent(run)}/${name}`);
    await settled(page);
    await check(page, trouble, name, tag);
  }
  if (values.compare) {
    const [a, b] = values.compare.split(",");
    await page.goto(`${base}/#/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
    await settled(page);
    await check(page, trouble, "compare", tag);
  }
  await context.close();
}

if (values.live) {
  const {context, page} = await opened("light", 1280);
  const run = values.run ?? (await page.locator("table.runs tbody a").first().innerText());
  await page.goto(`${base}/#/run/${encodeURIComponent(run)}/overview`);
  const chip = page.locator(".chip.live");
  await chip.waitFor({timeout: 20000});
  const before = await chip.innerText();
  await page.waitForFunction((old) => (document.querySelector(".chip.live")?.textContent ?? old) !== old, before, {timeout: 20000});
  const after = await chip.innerText();
  console.log(JSON.stringify({page: "live", before, after, wrong: []}));
  await context.close();
}
await browser.close();
process.exit(failures > 0 ? 1 : 0);
