import type { ComponentChildren } from "preact";
import { classes } from "./classes";
import { Icon, type IconName } from "./icons";

interface ButtonProps {
  children?: ComponentChildren;
  icon?: IconName;
  label?: string; // the accessible name of a button with only an icon
  hint?: string; // additional explanation
  kind?: "plain" | "main" | "danger" | "quiet";
  small?: boolean;
  pressed?: boolean;
  disabled?: boolean;
  onClick?: (event: MouseEvent) => void;
  type?: "button" | "submit";
  class?: string;
}

export function Button({ children, icon, label, hint, kind = "plain", small, pressed, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      {...rest}
      class={classes("button", kind, small && "small", !children && "only-icon", rest.class)}
      aria-label={label}
      title={hint ?? label}
      aria-pressed={pressed}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}
