// The elements <rx-run> and <rx-panel>. They are loaded from the server whose runs they show, so that both have the same version.

export async function defineElements(url) {
  const server = new URL(url.endsWith("/") ? url : `${url}/`, document.baseURI);
  await Promise.all(["embed", "panel"].map((name) => import(/* @vite-ignore */ new URL(`static/${name}.js`, server).href)));
}
