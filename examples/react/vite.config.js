// Two pages. While they are developed, "npm run dev" passes the addresses of the worker on to server.py.
export default {
  build: { target: "esnext", rollupOptions: { input: ["chat.html", "agui.html"] } },
  server: { proxy: { "/worker": "http://127.0.0.1:8000" } },
};
