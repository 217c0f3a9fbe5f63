// The page that shows a VM's screen: noVNC on the websocket that createConsoleEndpoint's token opens.
import RFB from "./novnc-1.7.0/core/rfb.js";

const given = location.hash.slice(1);
const state = document.getElementById("state");
const keys = document.getElementById("ctrl-alt-del");
const texts = document.body.dataset;

if (!given) {
  state.textContent = texts.noToken;
} else {
  history.replaceState(null, "", location.pathname); // it opens nothing a second time
  const where = new URL("../client/console?" + given, location.href);
  where.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  where.hash = "";
  const socket = new WebSocket(where);
  let taken = false;
  socket.addEventListener("open", () => { taken = true; });
  socket.addEventListener("close", (event) => {
    state.textContent = event.reason || (taken ? texts.ended : texts.notTaken);
    keys.disabled = true;
  });
  const screen = new RFB(document.getElementById("screen"), socket, { shared: true });
  screen.scaleViewport = true;
  screen.addEventListener("connect", () => {
    state.textContent = texts.connected;
    keys.disabled = false;
    screen.focus();
  });
  screen.addEventListener("desktopname", (event) => {
    document.title = event.detail.name;
  });
  keys.addEventListener("click", () => {
    screen.sendCtrlAltDel();
    screen.focus();
  });
}
