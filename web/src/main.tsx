import "uplot/dist/uPlot.min.css";
import "./styles/tokens.css";
import "./styles/base.css"; // before the pages, whose styles override it
import { render } from "preact";
import { App } from "./app";
import { restoreTheme } from "./theme";

restoreTheme();
render(<App />, document.getElementById("app")!);
