"""The pages in Chromium. A package, because its fixtures end with it: Playwright leaves an event loop running."""
