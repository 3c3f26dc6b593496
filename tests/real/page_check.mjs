// Opens a file in a real browser at several widths; prints what a person would meet, as JSON.
import { createRequire } from 'node:module';

const [toolchain, browser, file, ...widths] = process.argv.slice(2);
const { chromium } = createRequire(`${toolchain}/`)('playwright-core');
const running = await chromium.launch({ executablePath: browser, args: ['--no-sandbox', '--disable-gpu'] });
const found = [];
for (const width of widths.map(Number)) {
  const page = await running.newPage({ viewport: { width, height: 900 } });
  const said = [];
  page.on('console', (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on('pageerror', (error) => said.push(`error: ${error}`));
  page.on('requestfailed', (request) => said.push(`failed: ${request.url().slice(0, 100)}`));
  const requests = [];
  page.on('request', (request) => requests.push(request.url().slice(0, 60)));
  await page.goto(`file://${file}`);
  const details = await page.locator('details').all();
  for (const each of details) await each.evaluate((element) => (element.open = true));
  const picture = page.locator('img').first();
  if (await picture.count()) await picture.scrollIntoViewIfNeeded();
  const facts = await page.evaluate(() => ({
    scroll: document.documentElement.scrollWidth,
    inner: window.innerWidth,
    text: document.body.innerText,
    broken: [...document.images].filter((image) => image.complete && image.naturalWidth === 0).length,
    images: document.images.length,
  }));
  found.push({ width, said, outside: requests.filter((url) => !/^(file|data):/.test(url)), ...facts });
  await page.close();
}
await running.close();
console.log(JSON.stringify(found));
