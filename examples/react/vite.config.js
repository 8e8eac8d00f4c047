// Two pages. While they are developed, "npm run dev" passes the addresses of the worker on to server.py.
export default {
  build: { target: "esnext", rollupOptions: { input: ["chat.html", "agui.html"] } },
  // The package of this checkout; elsewhere it is installed, and none of this is needed.
  resolve: {
    alias: { "rxworker-client": new URL("../../rxworker/ui/web/client", import.meta.url).pathname },
    dedupe: ["react", "rxjs"],
  },
  server: { proxy: { "/worker": { target: "http://127.0.0.1:8000", ws: true } } },
};
