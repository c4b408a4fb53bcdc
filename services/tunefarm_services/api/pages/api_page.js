// All addresses are relative to the page, so that it works behind a proxy that adds a prefix to paths.
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#operations",
  deepLinking: true,
  displayRequestDuration: true,
  filter: true,
  // Without this the page asks a public host whether the document is valid.
  validatorUrl: null,
});
