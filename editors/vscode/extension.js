"use strict";
// Starts ceras-lsp and connects it; everything else is the server's.
const { workspace, window } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const settings = workspace.getConfiguration("ceras");
  const server = { command: settings.get("server"), args: settings.get("arguments") };
  const options = { documentSelector: [{ language: "mlir" }] };
  client = new LanguageClient("ceras", "Ceras MLIR", server, options);
  try {
    await client.start();
  } catch (error) {
    window.showErrorMessage(
      `${server.command} does not start (${error.message}): pip install '.[editor]' in the clone, ` +
        "and name it in the setting ceras.server"
    );
  }
};

exports.deactivate = () => client?.stop();
