// In the frame of a diagram: draws the text that the page sends, and answers with the height of the picture or with the error. See views/diagram.js.

addEventListener("message", async ({ source, data }) => {
  if (source !== parent) return;
  const node = document.getElementById("diagram"), answer = (message) => parent.postMessage(message, "*");
  document.body.className = data.theme;
  mermaid.initialize({ startOnLoad: false, securityLevel: "strict", suppressErrorRendering: true, theme: data.theme });
  try {
    node.innerHTML = (await mermaid.render("drawn", data.text)).svg;
    answer({ height: Math.ceil(node.getBoundingClientRect().height) });
  } catch (error) {
    answer({ error: String(error?.message ?? error) });
  }
});
