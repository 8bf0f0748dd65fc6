// The browser view of stepscope: reads the token off the address, then draws what the address says.
import {render} from "preact";
import {takeToken} from "./api";
import {Shell} from "./shell";
import "uplot/dist/uPlot.min.css";
import "./app.css";

takeToken();
const root = document.getElementById("app");
if (root) render(<Shell />, root);
