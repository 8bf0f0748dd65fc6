// node tests/main_thread.mjs CHROMIUM URL [SECONDS]: what a live run costs the browser. Opens each page of the run at URL
// (token included), waits until it stands still, and measures for SECONDS (20): CPU time of the page's main thread as a
// share of a core, and of it scripts, layout and styles. Also the first paint, from a cold cache. One JSON object a page.
import {chromium} from "playwright-core";

const [executablePath, url, seconds = "20"] = process.argv.slice(2);
const measured_s = Number(seconds);
const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--disable-gpu"],
});

async function metrics(cdp) {
  const {metrics: list} = await cdp.send("Performance.getMetrics");
  return Object.fromEntries(list.map((m) => [m.name, m.value]));
}

for (const name of ["overview", "ranks", "step", "memory", "system"]) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}});
  const page = await context.newPage();
  const cdp = await context.newCDPSession(page);
  await cdp.send("Performance.enable", {timeDomain: "threadTicks"});
  await page.goto(url, {waitUntil: "load"});
  await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0, {timeout: 20000});
  const paint_ms = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  const run = await page.evaluate(() => decodeURIComponent(/run\/([^/?]+)/.exec(location.hash)?.[1] ?? ""));
  await page.evaluate(([r, n]) => { location.hash = `#/run/${encodeURIComponent(r)}/${n}`; }, [run || "live", name]);
  await page.waitForTimeout(4000);
  const before = await metrics(cdp), begin = Date.now();
  await page.waitForTimeout(measured_s * 1000);
  const after = await metrics(cdp), wall_s = (Date.now() - begin) / 1000;
  const share = (key) => Math.round(1000 * (after[key] - before[key]) / wall_s) / 1000;
  console.log(JSON.stringify({
    page: name, seconds: Math.round(wall_s), first_paint_ms: Math.round(paint_ms), main_thread_share: share("TaskDuration"),
    script_share: share("ScriptDuration"), layout_share: share("LayoutDuration"), style_share: share("RecalcStyleDuration"),
    heap_mib: Math.round(after.JSHeapUsedSize / 2 ** 20),
  }));
  await context.close();
}
await browser.close();
