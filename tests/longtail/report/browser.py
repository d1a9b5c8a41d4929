"""A page in a real browser: opening it from disk, waiting until all is drawn, keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def show(
    driver: Any,
    path: Path,
    width: int = 1300,
    scheme: str = "light",
    medium: str = "",
    motion: str = "reduce",
    target: str = "",
    settles: bool = True,
    opens: str | None = "*",
    query: str = "",
) -> None:
    """Open the page and its chapters; with `settles`, wait until all of that is drawn.

    `opens`: a selector; the chapters that hold such an element are open, and none beside that of `target` if it is empty;
    without it, those are that the page opens. To draw all takes seconds. `target` and `query`: what the address has
    behind # and ?.
    """
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wishes = {"prefers-color-scheme": scheme, "prefers-reduced-motion": motion}
    features = [{"name": name, "value": value} for name, value in wishes.items()]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": medium, "features": features})
    driver.get_log("browser")
    driver.get(f"{path.as_uri()}{'?' if query else ''}{query}{'#' if target else ''}{target}")
    if opens is not None:
        if opens:
            again(driver)
        inside = ", ".join(filter(None, (opens, f"#{target}" if target else "")))
        driver.execute_script(
            "for (const box of document.querySelectorAll('.chapter'))"
            "  box.open = arguments[0] && box.parentElement.matches(`:is(${arguments[0]}), :has(${arguments[0]})`)",
            inside,
        )
    if settles:
        settle(driver)


def settle(driver: Any) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 60, poll_frequency=0.1).until(
        lambda d: d.execute_script("return document.documentElement.dataset.drawn") == "all"
    )


def again(driver: Any) -> None:
    """Forget that all is drawn, before something that draws anew."""
    driver.execute_script("delete document.documentElement.dataset.drawn")


def element(driver: Any, selector: str) -> Any:
    from selenium.webdriver.common.by import By

    return driver.find_element(By.CSS_SELECTOR, selector)


def shown(driver: Any, selector: str) -> Any:
    """The element as soon as it is there to be used. A browser fills what opens a moment after it has opened it."""
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.expected_conditions import element_to_be_clickable
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, 60, poll_frequency=0.1).until(
        element_to_be_clickable((By.CSS_SELECTOR, selector))
    )


def press(driver: Any, *keys: str) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*keys).perform()
